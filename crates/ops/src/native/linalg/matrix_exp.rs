//! The exponential of matrices, by scaling, a Padé approximant of degree 13, and squaring: Higham, "The scaling and squaring method for
//! the matrix exponential revisited" (2005). Computed in f64.

use super::matrices::{batch_sizes, ensure_float, new, square_size, widest, with_sizes};
use super::matrix_exp_lanes::{COEFFICIENTS, LARGEST, exponentials, squarings_for};
use crate::native::guarded_slices::with_slices;
use crate::{Tensor, ops, scratch};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType};

/// The exponential of each matrix.
pub fn linalg_matrix_exp(self_: &Tensor) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_exp";
    square_size(NAME, "A", self_)?;
    // Half precision too: the computation is in f64.
    if !matches!(self_.dtype(), ScalarType::F16 | ScalarType::BF16) {
        ensure_float(NAME, "A", self_)?;
    }
    if self_.numel() == 0 || !self_.device().is_cpu() {
        return new(NAME, self_, self_.sizes(), self_.dtype());
    }
    let a = ops::contiguous(
        &ops::to_dtype(self_, widest(self_.dtype()), false, false, None)?,
        MemoryFormat::Contiguous,
    )?;
    let n = a.size(-1)?;
    let in_lanes = n <= LARGEST && a.dtype() == ScalarType::F64;
    let power = if in_lanes { exponentials(NAME, &a, n as usize)? } else { composed(NAME, &a)? };
    let made = new(NAME, self_, self_.sizes(), self_.dtype())?;
    ops::copy_(&made, &power, false)?;
    Ok(made)
}

/// The exponential of each of the contiguous matrices, by operators.
fn composed(name: &str, a: &Tensor) -> Result<Tensor> {
    let squarings = squarings(name, a)?;
    let down = ops::mul_tensor(a, &column(&squarings, |s| (-s).exp2(), a)?)?;
    let mut power = approximant(&down)?;
    let most = squarings.iter().copied().fold(0.0, f64::max) as usize;
    for step in 0..most {
        // A matrix that is done stays as it is, so that it has the same bits in any batch.
        let square = ops::matmul(&power, &power)?;
        let goes_on = ops::gt_scalar(&column(&squarings, |s| s, a)?, Scalar::Int(step as i64))?;
        power = ops::where_self(&goes_on, &square, &power)?;
    }
    Ok(power)
}

/// As [`linalg_matrix_exp`].
pub fn matrix_exp(self_: &Tensor) -> Result<Tensor> {
    ops::linalg_matrix_exp(self_)
}

/// How often to halve each matrix, by its largest sum of magnitudes of a column.
fn squarings(name: &str, a: &Tensor) -> Result<Vec<f64>> {
    let norms = ops::amax(&ops::sum_dim_intlist(&ops::abs(a)?, Some(&[-2]), false, None)?, &[-1], false)?;
    let norms = ops::contiguous(&norms, MemoryFormat::Contiguous)?;
    with_slices(name, &[&norms], &[], |s| {
        Ok(scratch::collect(s.read::<f64>(0)?.iter().map(|norm| squarings_for(*norm))))
    })
}

/// A number for each matrix of `a`, to be broadcast over it.
fn column(values: &[f64], f: impl Fn(f64) -> f64, a: &Tensor) -> Result<Tensor> {
    let values =
        Tensor::from_vec(scratch::collect(values.iter().map(|value| f(*value))), &[values.len() as i64])?;
    ops::reshape(&values, &with_sizes(batch_sizes(a), &[1, 1]))
}

/// The quotient of polynomials, whose even and odd parts are sums of powers of the square.
fn approximant(a: &Tensor) -> Result<Tensor> {
    let a2 = ops::matmul(a, a)?;
    let a4 = ops::matmul(&a2, &a2)?;
    let a6 = ops::matmul(&a4, &a2)?;
    let powers = [&a2, &a4, &a6];
    let one = ops::eye(a.size(-1)?, Some(a.dtype()), None, Some(a.device()), None)?;
    let part = |parity: usize| -> Result<Tensor> {
        let c = |k: usize| COEFFICIENTS[k + parity];
        let high = combined(powers, [c(8), c(10), c(12)])?;
        let low = combined(powers, [c(2), c(4), c(6)])?;
        ops::matmul(&a6, &high)? + low + ops::mul_scalar(&one, Scalar::Float(c(0)))?
    };
    let (even, odd) = (part(0)?, ops::matmul(a, &part(1)?)?);
    ops::linalg_solve_ex(&(&even - &odd)?, &(&even + &odd)?, true, false).map(|(quotient, _)| quotient)
}

fn combined(powers: [&Tensor; 3], factors: [f64; 3]) -> Result<Tensor> {
    let [a, b, c] = [0, 1, 2].map(|i| ops::mul_scalar(powers[i], Scalar::Float(factors[i])));
    a? + b? + c?
}
