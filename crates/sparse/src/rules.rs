//! The rules of operators for sparse tensors. Each is registered for both keys of sparse layouts, so it serves all of them: those that
//! compute with coordinates convert compressed tensors, and convert the result back.

mod copies;
mod elementwise;
mod products;
mod reductions;
mod selection;
mod shapes;
mod unary;

use flambeau_core::{Result, bail, ensure};
use flambeau_ops::Tensor;

/// Registers functions of an operator's arguments as its kernels for sparse tensors.
macro_rules! rules {
    ($($operator:ident => $rule:expr;)*) => {$(
        flambeau_ops::register!(flambeau_ops::ops::$operator, Sparse, $rule);
        flambeau_ops::register!(flambeau_ops::ops::$operator, SparseCompressed, $rule);
    )*};
}
use rules;

/// The error of an operator that has a rule, but not for these arguments.
pub(crate) fn unsupported<T>(name: &str, tensor: &Tensor, why: &str) -> Result<T> {
    bail!(
        NotImplemented(name),
        "{why}: expected other arguments for a tensor of layout {}, or call `to_dense()` first",
        tensor.layout()
    )
}

/// Requires operands of the same sizes: sparse tensors do not broadcast.
pub(crate) fn check_same_sizes(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.sizes() == b.sizes(),
        Shape(name),
        "expected sparse tensors of the same sizes but got {:?} and {:?}",
        a.sizes(),
        b.sizes()
    );
    Ok(())
}
