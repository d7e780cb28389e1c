//! Compares the values of two tensors by methods that return a `Result`. There is no `PartialEq`, which would have to hide errors.

use super::Tensor;
use super::elements::Elements;
use crate::dispatch_all_types;
use flambeau_core::{Element, Result, Scalar, ensure, shape};

impl Tensor {
    /// Whether sizes and all elements are equal. NaN differs from itself. PyTorch's `torch.equal`.
    ///
    /// # Errors
    /// `Dtype` for tensors of two types, `Device` for tensors without values, `Busy` where this thread holds an
    /// accessor that writes.
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::from([1.0f32, 2.0]);
    /// assert!(t.equal(&Tensor::from([1.0f32, 2.0]))?);
    /// assert!(!t.equal(&Tensor::from([[1.0f32, 2.0]]))?);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        same_dtype("equal", self, other)?;
        if self.sizes() != other.sizes() {
            return Ok(false);
        }
        let (a, b) = (self.on_host()?, other.on_host()?);
        dispatch_all_types!(stored, self.dtype(), "equal", T => {
            Ok(Elements::<T>::new(&a)?.iter().eq(Elements::<T>::new(&b)?.iter()))
        })
    }

    /// Whether `|self - other| <= atol + rtol * |other|` for all elements, after broadcasting; the difference is taken in
    /// f64, and exactly for integers. PyTorch's defaults are `1e-5`, `1e-8` and `false`.
    ///
    /// # Errors
    /// `Dtype` for tensors of two types, `Shape` where they do not broadcast, `InvalidArgument` for negative tolerances,
    /// `Device` and `Busy` as for [`equal`](Self::equal).
    ///
    /// ```
    /// use flambeau_ops::Tensor;
    /// let (a, b) = (Tensor::from([1.0, f64::NAN]), Tensor::from([1.0 + 1e-9, f64::NAN]));
    /// assert!(a.allclose(&b, 1e-5, 1e-8, true)?);
    /// assert!(!a.allclose(&b, 1e-5, 1e-8, false)?);
    /// # Ok::<(), flambeau_ops::Error>(())
    /// ```
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        same_dtype("allclose", self, other)?;
        ensure!(
            rtol >= 0.0 && atol >= 0.0,
            InvalidArgument("allclose", "rtol"),
            "expected tolerances of at least 0 but got rtol={rtol} and atol={atol}"
        );
        let sizes = shape::broadcast(self.sizes(), other.sizes()).map_err(|e| e.in_operator("allclose"))?;
        let (a, b) = (self.on_host()?, other.on_host()?);
        dispatch_all_types!(stored, self.dtype(), "allclose", T => {
            let (a, b) = (Elements::<T>::broadcast(&a, &sizes)?, Elements::<T>::broadcast(&b, &sizes)?);
            let close = |(a, b): (T, T)| is_close(a.to_scalar(), b.to_scalar(), rtol, atol, equal_nan);
            Ok(a.iter().zip(b.iter()).all(close))
        })
    }
}

fn same_dtype(name: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Dtype(name, "other"),
        "expected `other` of type {} but got {}",
        a.dtype(),
        b.dtype()
    );
    Ok(())
}

/// An integer.
fn whole(number: Scalar) -> Option<i128> {
    match number {
        Scalar::Int(i) => Some(i.into()),
        Scalar::UInt(u) => Some(u.into()),
        _ => None,
    }
}

/// Infinities are close to themselves only.
fn is_close(a: Scalar, b: Scalar, rtol: f64, atol: f64, equal_nan: bool) -> bool {
    if a == b {
        return true;
    }
    let (x, y) = (a.to_complex(), b.to_complex());
    let is_nan = |(re, im): (f64, f64)| re.is_nan() || im.is_nan();
    if is_nan(x) && is_nan(y) {
        return equal_nan;
    }
    let error = match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.abs_diff(b) as f64,
        _ => f64::hypot(x.0 - y.0, x.1 - y.1),
    };
    error.is_finite() && error <= atol + rtol * f64::hypot(y.0, y.1)
}
