//! The shapes and types of the outputs of pooling and of its gradients, with the checks of their operands.

use super::windows::Kind;
use crate::Tensor;
use crate::native::linalg::matmul::ensure_same_device;
use crate::structured::TensorSpec;
use flambeau_core::{Result, ScalarType, ensure};

/// The output of pooling that gives the spatial sizes `output`.
pub(super) fn spec(kind: Kind, self_: &Tensor, output: [i64; 3]) -> TensorSpec {
    let format = self_.suggest_memory_format();
    TensorSpec::like(self_, &kind.resized(self_.sizes(), output)).with_format(format)
}

/// Shape and type of a gradient, after checking that `grad_output` is like the output of the forward operator.
pub(super) fn gradient_spec(
    kind: Kind,
    grad_output: &Tensor,
    self_: &Tensor,
    output: [i64; 3],
) -> Result<TensorSpec> {
    let (name, sizes) = (kind.name, kind.resized(self_.sizes(), output));
    ensure!(
        grad_output.sizes() == sizes.as_slice(),
        Shape(name, "grad_output"),
        "expected `grad_output` of sizes {sizes:?} but got {:?}",
        grad_output.sizes()
    );
    ensure_same_device(name, self_, &[grad_output])?;
    ensure!(
        grad_output.dtype() == self_.dtype(),
        Dtype(name, "grad_output"),
        "expected `grad_output` to have the type of `self`, {}, but got {}",
        self_.dtype(),
        grad_output.dtype()
    );
    Ok(TensorSpec::like(self_, self_.sizes()).with_format(self_.suggest_memory_format()))
}

pub(super) fn check_indices(name: &str, indices: &Tensor, sizes: &[i64]) -> Result<()> {
    ensure!(
        indices.dtype() == ScalarType::I64 && indices.sizes() == sizes,
        Shape(name, "indices"),
        "expected `indices` of int64 and sizes {sizes:?} but got {} and {:?}",
        indices.dtype(),
        indices.sizes()
    );
    Ok(())
}
