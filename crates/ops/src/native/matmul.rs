//! Matrix products.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

use crate::Tensor;
use crate::dispatch_all_types;
use crate::gemm::{Gemm, gemm};
use crate::structured::{TensorSpec, with_guards};
use flambeau_core::{Result, ensure};

/// Shape and type of [`mm`].
pub fn mm_meta(self_: &Tensor, mat2: &Tensor) -> Result<TensorSpec> {
    for (name, matrix) in [("self", self_), ("mat2", mat2)] {
        ensure!(
            matrix.dim() == 2,
            Shape,
            "mm: expected `{name}` to be a matrix but got sizes {:?}",
            matrix.sizes()
        );
    }
    let (a, b) = (self_.sizes(), mat2.sizes());
    ensure!(
        a[1] == b[0],
        Shape,
        "mm: mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        a[0],
        a[1],
        b[0],
        b[1]
    );
    ensure!(
        self_.dtype() == mat2.dtype(),
        Dtype,
        "mm: expected `mat2` to have the type of `self`, {}, but got {}",
        self_.dtype(),
        mat2.dtype()
    );
    Ok(TensorSpec::like(self_, &[a[0], b[1]]))
}

/// The matrix product of `self_` and `mat2`.
pub fn mm(self_: &Tensor, mat2: &Tensor, out: &Tensor) -> Result<()> {
    let strides = |t: &Tensor| [t.strides()[0] as isize, t.strides()[1] as isize];
    let (m, k, n) = (self_.sizes()[0] as usize, self_.sizes()[1] as usize, mat2.sizes()[1] as usize);
    dispatch_all_types!(numbers, self_.dtype(), "mm", T => with_guards("mm", &[self_, mat2], &[out], || {
        let product = Gemm::<T> {
            a_strides: strides(self_),
            b_strides: strides(mat2),
            c_strides: strides(out),
            ..Gemm::contiguous(m, n, k, self_.data_ptr().cast(), mat2.data_ptr().cast(), out.data_ptr().cast())
        };
        // SAFETY: the guards are held; `out` is allocated with the product's shape and overlaps neither operand.
        unsafe { gemm(crate::gemm::Isa::detected(), &product) };
        Ok(())
    }))
}
