//! Views of complex numbers as pairs of real ones, and of their parts.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Geometry, Result, ScalarType, TensorImpl, bail, ensure};

/// The parts of complex numbers, as a last dimension of size 2.
pub fn view_as_real(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype().is_complex(),
        Dtype("view_as_real", "self"),
        "view_as_real is only supported for complex tensors but got {}",
        self_.dtype()
    );
    let g = self_.geometry();
    let mut sizes = DimVec::from_slice(g.sizes());
    let mut strides: DimVec = g.strides().iter().map(|stride| 2 * stride).collect();
    sizes.push(2);
    strides.push(1);
    view_in_type(self_, &sizes, &strides, 2 * g.storage_offset(), self_.dtype().to_real())
}

/// The complex numbers whose parts are the last dimension, of size 2.
pub fn view_as_complex(self_: &Tensor) -> Result<Tensor> {
    const NAME: &str = "view_as_complex";
    let dtype = match self_.dtype() {
        ScalarType::F16 => ScalarType::Complex32,
        real @ (ScalarType::F32 | ScalarType::F64) => real.to_complex(),
        other => bail!(
            Dtype(NAME, "self"),
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {other}"
        ),
    };
    let g = self_.geometry();
    let (Some((&pair, sizes)), Some((&step, outer))) = (g.sizes().split_last(), g.strides().split_last())
    else {
        bail!(Shape(NAME, "self"), "Input tensor must have one or more dimensions");
    };
    ensure!(pair == 2, Shape(NAME, "self"), "Tensor must have a last dimension of size 2");
    ensure!(step == 1, Shape(NAME, "self"), "Tensor must have a last dimension with stride 1");
    ensure!(
        outer.iter().zip(sizes).all(|(stride, size)| *size <= 1 || stride % 2 == 0),
        Shape(NAME, "self"),
        "Tensor must have a stride divisible by 2 for all but last dimension"
    );
    ensure!(
        g.storage_offset() % 2 == 0,
        Shape(NAME, "self"),
        "Tensor must have a storage_offset divisible by 2"
    );
    let strides: DimVec = outer.iter().map(|stride| stride / 2).collect();
    view_in_type(self_, sizes, &strides, g.storage_offset() / 2, dtype)
}

fn view_in_type(
    self_: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
    dtype: ScalarType,
) -> Result<Tensor> {
    let geometry = Geometry::strided(sizes, strides, offset)?;
    TensorImpl::new(self_.storage().clone(), geometry, dtype).map(Tensor::from_impl)
}

/// The real parts, as a view; real numbers as they are.
pub fn real(self_: &Tensor) -> Result<Tensor> {
    if !self_.dtype().is_complex() {
        return Ok(self_.clone());
    }
    ops::select_int(&ops::view_as_real(self_)?, -1, 0)
}

/// The imaginary parts, as a view.
pub fn imag(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dtype().is_complex(),
        Dtype("imag", "self"),
        "imag is not implemented for tensors with non-complex dtypes."
    );
    ops::select_int(&ops::view_as_real(self_)?, -1, 1)
}
