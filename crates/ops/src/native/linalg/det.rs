//! Determinants and their logarithms.

use super::lu::factor;
use super::matrices::{batch_sizes, ensure_float, new, square_size};
use crate::native::guarded_slices::with_slices;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Element, Result, Scalar};

/// The determinant, with the factors and pivots that it comes from.
pub fn _linalg_det(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.det";
    square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let (factors, pivots, _) = factor(NAME, a, true)?;
    let result = new(NAME, a, batch_sizes(a), a.dtype())?;
    of_each(NAME, [&factors, &pivots], &[&result], |diagonal, sign| {
        [diagonal.fold(sign, |product, pivot| product * pivot), 0.0]
    })?;
    Ok((result, factors, pivots))
}

/// The sign and the logarithm of the magnitude of the determinant, with the factors and pivots that they come from.
pub fn _linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.slogdet";
    square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let (factors, pivots, _) = factor(NAME, a, true)?;
    let one = || new(NAME, a, batch_sizes(a), a.dtype());
    let (sign, logarithm) = (one()?, one()?);
    of_each(NAME, [&factors, &pivots], &[&sign, &logarithm], |diagonal, sign| {
        diagonal.fold([sign, 0.0], |[sign, sum], pivot| {
            let own = if pivot == 0.0 || pivot.is_nan() { pivot } else { pivot.signum() };
            [sign * own, sum + pivot.abs().ln()]
        })
    })?;
    Ok((sign, logarithm, factors, pivots))
}

/// Fills `outs` with what `f` gives for the diagonal of each matrix of factors and the sign of its permutation, in f64.
fn of_each(
    name: &str,
    [factors, pivots]: [&Tensor; 2],
    outs: &[&Tensor],
    f: impl Fn(&mut dyn Iterator<Item = f64>, f64) -> [f64; 2],
) -> Result<()> {
    let n = factors.sizes()[factors.dim() - 1] as usize;
    if n == 0 {
        // The product of no numbers is 1, and the sum of their logarithms 0.
        return outs
            .iter()
            .zip([1, 0])
            .try_for_each(|(out, value)| ops::fill__scalar(out, Scalar::Int(value)));
    }
    if !factors.device().is_cpu() {
        return Ok(());
    }
    dispatch_all_types!(wide_floats, factors.dtype(), name, T => with_slices(name, &[factors, pivots], outs, |s| {
        let (factors, pivots) = (s.read::<T>(0)?, s.read::<i32>(1)?);
        let (first, mut second) = (s.write::<T>(0)?, outs.get(1).map(|_| s.write::<T>(1)).transpose()?);
        for (at, (matrix, out)) in factors.chunks_exact(n * n).zip(first).enumerate() {
            let exchanged = pivots[at * n..(at + 1) * n].iter().zip(1..).filter(|(pivot, row)| **pivot != *row);
            let sign = if exchanged.count() % 2 == 0 { 1.0 } else { -1.0 };
            let [value, other] = f(&mut matrix.iter().step_by(n + 1).map(|pivot| wide(*pivot)), sign);
            *out = T::from_scalar(Scalar::Float(value));
            if let Some(second) = &mut second {
                second[at] = T::from_scalar(Scalar::Float(other));
            }
        }
        Ok(())
    }))
}

fn wide<T: Into<f64>>(value: T) -> f64 {
    value.into()
}

/// The determinant of each matrix.
pub fn linalg_det(a: &Tensor) -> Result<Tensor> {
    Ok(ops::_linalg_det(a)?.0)
}

/// The sign of each determinant, and the logarithm of its magnitude.
pub fn linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sign, logarithm, _, _) = ops::_linalg_slogdet(a)?;
    Ok((sign, logarithm))
}

/// The logarithm of each determinant, NaN where it is negative.
pub fn logdet(a: &Tensor) -> Result<Tensor> {
    square_size("logdet", "A", a)?;
    let (sign, logarithm) = ops::linalg_slogdet(a)?;
    ops::masked_fill_scalar(&logarithm, &ops::eq_scalar(&sign, Scalar::Int(-1))?, Scalar::Float(f64::NAN))
}
