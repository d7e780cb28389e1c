//! A kernel that reads elements: the norm of each row.

use flambeau_core::{Result, ScalarType, ensure};
use flambeau_ops::Tensor;
use flambeau_ops::structured::TensorSpec;

/// Sizes and type of [`row_norm`].
pub fn row_norm_meta(self_: &Tensor) -> Result<TensorSpec> {
    let dtype = self_.dtype();
    ensure!(
        matches!(dtype, ScalarType::F32 | ScalarType::F64),
        Dtype("mine::row_norm", "self"),
        "expected elements of f32 or f64 but got {dtype}"
    );
    ensure!(
        self_.dim() == 2,
        Shape("mine::row_norm", "self"),
        "expected a matrix but got {:?}",
        self_.sizes()
    );
    Ok(TensorSpec::like(self_, &self_.sizes()[..1]))
}

/// The Euclidean norm of each row, in the type of the elements.
pub fn row_norm(self_: &Tensor, out: &Tensor) -> Result<()> {
    if self_.dtype() == ScalarType::F32 {
        let rows = self_.accessor::<f32, 2>()?;
        let norms =
            rows.rows().map(|row| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32);
        return fill(out, norms);
    }
    let rows = self_.accessor::<f64, 2>()?;
    fill(out, rows.rows().map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt()))
}

fn fill<T: flambeau_core::Element>(out: &Tensor, values: impl Iterator<Item = T>) -> Result<()> {
    let mut out = out.accessor_mut::<T, 1>()?;
    out.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
    Ok(())
}
