//! Views and other operators whose kernels of the host touch no element, or only by loops that run on the device.

use flambeau_core::{DispatchKeySet, MemoryFormat, Result};
use flambeau_ops::native::linalg::tril_triu;
use flambeau_ops::native::pointwise::{activation, activation_piecewise};
use flambeau_ops::native::shape::{view, view_in_place};
use flambeau_ops::tensor_iterator::iterate;
use flambeau_ops::{Tensor, ops, register};

/// Registers kernels of the host.
macro_rules! of_the_host {
    ($($operator:ident $kernel:path: ($($arg:ident: $ty:ty),*) -> $returned:ty;)*) => {$(
        const _: () = {
            fn kernel(_: DispatchKeySet, $($arg: $ty),*) -> Result<$returned> {
                $kernel($($arg),*)
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

of_the_host! {
    AS_STRIDED view::as_strided: (self_: &Tensor, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Tensor;
    UNFOLD view::unfold: (self_: &Tensor, dimension: i64, size: i64, step: i64) -> Tensor;
    RESIZE_ view_in_place::resize_: (self_: &Tensor, size: &[i64], memory_format: Option<MemoryFormat>) -> ();
    LOG_SIGMOID_FORWARD activation::log_sigmoid_forward: (self_: &Tensor) -> (Tensor, Tensor);
    GLU activation_piecewise::glu: (self_: &Tensor, dim: i64) -> Tensor;
    TRIL tril: (self_: &Tensor, diagonal: i64) -> Tensor;
    TRIU triu: (self_: &Tensor, diagonal: i64) -> Tensor;
}

fn tril(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    iterate::functional("tril", |iter| {
        tril_triu::tril_meta(iter, self_, diagonal)?;
        tril_triu::tril(iter, self_, diagonal)
    })
}

fn triu(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    iterate::functional("triu", |iter| {
        tril_triu::triu_meta(iter, self_, diagonal)?;
        tril_triu::triu(iter, self_, diagonal)
    })
}
