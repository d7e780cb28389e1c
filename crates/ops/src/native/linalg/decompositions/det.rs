//! Determinants and their logarithms.

use super::lu::factor;
use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{batch_sizes, ensure_float, new, square_size};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Complex, Result, Scalar};
use flambeau_linalg::Field;
use smallvec::SmallVec;

/// The determinant, with the factors and pivots that it comes from.
pub fn _linalg_det(a: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.det";
    square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let (factors, pivots, _) = factor(NAME, a, true)?;
    let result = new(NAME, a, batch_sizes(a), a.dtype())?;
    of_each(NAME, [&factors, &pivots], &result, None, |diagonal, sign| {
        (diagonal.fold(sign, |product, pivot| product * pivot), 0.0)
    })?;
    Ok((result, factors, pivots))
}

/// The sign and the logarithm of the magnitude of the determinant, with the factors and pivots that they come from.
pub fn _linalg_slogdet(a: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.slogdet";
    square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let (factors, pivots, _) = factor(NAME, a, true)?;
    let sign = new(NAME, a, batch_sizes(a), a.dtype())?;
    let logarithm = new(NAME, a, batch_sizes(a), a.dtype().to_real())?;
    of_each(NAME, [&factors, &pivots], &sign, Some(&logarithm), |diagonal, sign| {
        diagonal.fold((sign, 0.0), |(sign, sum), pivot| {
            let size = pivot.magnitude();
            let own = if size == 0.0 { pivot } else { pivot.divided(size) };
            (sign * own, sum + size.ln())
        })
    })?;
    Ok((sign, logarithm, factors, pivots))
}

/// Fills `first`, and `second` if there is one, with what `f` gives for the diagonal of each matrix of factors and the sign of its
/// permutation, in f64.
fn of_each(
    name: &str,
    [factors, pivots]: [&Tensor; 2],
    first: &Tensor,
    second: Option<&Tensor>,
    f: impl Fn(&mut dyn Iterator<Item = Complex<f64>>, Complex<f64>) -> (Complex<f64>, f64),
) -> Result<()> {
    let n = factors.sizes()[factors.dim() - 1] as usize;
    if n == 0 {
        // The product of no numbers is 1, and the sum of their logarithms 0.
        ops::fill__scalar(first, Scalar::Int(1))?;
        return second.map_or(Ok(()), |second| ops::fill__scalar(second, Scalar::Int(0)));
    }
    if !factors.device().is_cpu() {
        return Ok(());
    }
    let outs: SmallVec<[&Tensor; 2]> = std::iter::once(first).chain(second).collect();
    dispatch_all_types!(wide_floats_and_complex, factors.dtype(), name, T => with_slices(name, &[factors, pivots], &outs, |s| {
        type R = <T as Field>::Real;
        let (factors, pivots) = (s.read::<T>(0)?, s.read::<i32>(1)?);
        let (firsts, mut seconds) = (s.write::<T>(0)?, second.map(|_| s.write::<R>(1)).transpose()?);
        for (at, (matrix, first)) in factors.chunks_exact(n * n).zip(firsts).enumerate() {
            let exchanged = pivots[at * n..(at + 1) * n].iter().zip(1..).filter(|(pivot, row)| **pivot != *row);
            let sign = Complex::new(if exchanged.count() % 2 == 0 { 1.0 } else { -1.0 }, 0.0);
            let (value, other) = f(&mut matrix.iter().step_by(n + 1).map(|pivot| wide(*pivot)), sign);
            *first = T::from_parts(value.re as R, value.im as R);
            if let Some(seconds) = &mut seconds {
                seconds[at] = other as R;
            }
        }
        Ok(())
    }))
}

fn wide<T: Field<Real: Into<f64>>>(value: T) -> Complex<f64> {
    Complex::new(value.re().into(), value.im().into())
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

/// The logarithm of each determinant, NaN where it is real and negative.
pub fn logdet(a: &Tensor) -> Result<Tensor> {
    square_size("logdet", "A", a)?;
    let (sign, logarithm) = ops::linalg_slogdet(a)?;
    if a.is_complex() {
        return ops::log(&sign)? + logarithm;
    }
    ops::masked_fill_scalar(&logarithm, &ops::eq_scalar(&sign, Scalar::Int(-1))?, Scalar::Float(f64::NAN))
}
