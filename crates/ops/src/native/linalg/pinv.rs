//! Pseudoinverses, ranks and condition numbers.

use super::matrices::{batch_sizes, ensure_float, matrix_sizes, mh, new, square_size, with_sizes};
use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

/// The smallest singular value that counts, as an absolute number and relative to the largest.
struct Tolerances {
    absolute: Tensor,
    relative: Tensor,
}

/// The distance from 1 to the next number of a type.
pub(super) fn epsilon(dtype: ScalarType) -> f64 {
    if dtype.to_real() == ScalarType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

impl Tolerances {
    /// Of two optional tensors.
    fn of_tensors(
        name: &str,
        a: &Tensor,
        absolute: Option<&Tensor>,
        relative: Option<&Tensor>,
    ) -> Result<Self> {
        let [rows, columns] = matrix_sizes(name, "input", a)?;
        for tolerance in [absolute, relative].into_iter().flatten() {
            super::matmul::ensure_same_device(name, a, &[tolerance])?;
            ensure!(
                !tolerance.dtype().is_complex(),
                Dtype(name, "tol"),
                got = tolerance.dtype(),
                "Expected a tolerance of a real number type but got {got}"
            );
        }
        let number = |value: f64| {
            ops::full(&[], Scalar::Float(value), Some(ScalarType::F64), None, Some(a.device()), None)
        };
        let default = number(epsilon(a.dtype()) * rows.max(columns) as f64)?;
        let relative = match (relative, absolute) {
            (Some(relative), _) => relative.clone(),
            // A positive absolute tolerance replaces the default one.
            (None, Some(absolute)) => {
                ops::where_self(&ops::gt_scalar(absolute, Scalar::Int(0))?, &number(0.0)?, &default)?
            }
            (None, None) => default,
        };
        Ok(Self { absolute: absolute.map_or_else(|| number(0.0), |t| Ok(t.clone()))?, relative })
    }

    /// Of two optional numbers.
    fn of_numbers(name: &str, a: &Tensor, absolute: Option<f64>, relative: Option<f64>) -> Result<Self> {
        let tensor = |value: Option<f64>| {
            let made = |value| {
                ops::full(&[], Scalar::Float(value), Some(ScalarType::F64), None, Some(a.device()), None)
            };
            value.map(made).transpose()
        };
        Self::of_tensors(name, a, tensor(absolute)?.as_ref(), tensor(relative)?.as_ref())
    }

    /// Which of the values, of which the largest is `largest`, count.
    fn keeps(&self, values: &Tensor, largest: &Tensor) -> Result<Tensor> {
        let column = |tolerance: &Tensor| match tolerance.dim() {
            0 => Ok(tolerance.clone()),
            _ => ops::unsqueeze(tolerance, -1),
        };
        let relative = ops::mul_tensor(&column(&self.relative)?, largest)?;
        ops::gt_tensor(values, &ops::maximum(&column(&self.absolute)?, &relative)?)
    }
}

/// The largest magnitude of each row, kept as a dimension of one element.
fn largest(values: &Tensor) -> Result<Tensor> {
    ops::amax(&ops::abs(values)?, &[-1], true)
}

/// The pseudoinverse, where singular values up to the larger of the tolerances count as 0.
pub fn pinv_tensors(
    a: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    const NAME: &str = "linalg.pinv";
    let tolerances = Tolerances::of_tensors(NAME, a, atol, rtol)?;
    let [rows, columns] = matrix_sizes(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    if hermitian {
        square_size(NAME, "A", a)?;
    }
    if a.numel() == 0 {
        let made = new(NAME, a, &with_sizes(batch_sizes(a), &[columns, rows]), a.dtype())?;
        return Ok(made);
    }
    if hermitian {
        let (values, vectors) = ops::linalg_eigh(a, "L")?;
        let keeps = tolerances.keeps(&ops::abs(&values)?, &largest(&values)?)?;
        return scaled_product(&vectors, &reciprocals(&values, &keeps)?, &mh(&vectors)?);
    }
    let (u, values, vh) = ops::linalg_svd(a, false, None)?;
    let keeps = tolerances.keeps(&values, &ops::narrow(&values, -1, 0, 1)?)?;
    scaled_product(&mh(&vh)?, &reciprocals(&values, &keeps)?, &mh(&u)?)
}

fn reciprocals(values: &Tensor, keeps: &Tensor) -> Result<Tensor> {
    ops::where_scalarother(keeps, &ops::reciprocal(values)?, Scalar::Int(0))
}

/// `a diag(values) b`.
fn scaled_product(a: &Tensor, values: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::matmul(&ops::mul_tensor(a, &ops::unsqueeze(values, -2)?)?, b)
}

fn with_tolerances(a: &Tensor, tolerances: &Tolerances, hermitian: bool) -> Result<Tensor> {
    ops::linalg_pinv_atol_rtol_tensor(a, Some(&tolerances.absolute), Some(&tolerances.relative), hermitian)
}

/// [`pinv_tensors`] with numbers.
pub fn pinv_numbers(a: &Tensor, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<Tensor> {
    with_tolerances(a, &Tolerances::of_numbers("linalg.pinv", a, atol, rtol)?, hermitian)
}

/// [`pinv_numbers`] with a relative tolerance.
pub fn pinv_rcond(a: &Tensor, rcond: f64, hermitian: bool) -> Result<Tensor> {
    pinv_numbers(a, None, Some(rcond), hermitian)
}

/// [`pinv_tensors`] with a relative tolerance.
pub fn pinv_rcond_tensor(a: &Tensor, rcond: &Tensor, hermitian: bool) -> Result<Tensor> {
    ops::linalg_pinv_atol_rtol_tensor(a, None, Some(rcond), hermitian)
}

/// [`pinv_rcond`] of any matrix.
pub fn pinverse(self_: &Tensor, rcond: f64) -> Result<Tensor> {
    pinv_rcond(self_, rcond, false)
}

fn rank(a: &Tensor, tolerances: &Tolerances, hermitian: bool) -> Result<Tensor> {
    const NAME: &str = "linalg.matrix_rank";
    ensure_float(NAME, "input", a)?;
    if hermitian {
        square_size(NAME, "input", a)?;
    }
    if a.numel() == 0 {
        return ops::zeros(batch_sizes(a), Some(ScalarType::I64), None, Some(a.device()), None);
    }
    let values =
        if hermitian { ops::abs(&ops::linalg_eigvalsh(a, "L")?)? } else { ops::linalg_svdvals(a, None)? };
    ops::sum_dim_intlist(&tolerances.keeps(&values, &largest(&values)?)?, Some(&[-1]), false, None)
}

/// The number of singular values above the larger of the tolerances.
pub fn rank_tensors(
    a: &Tensor,
    atol: Option<&Tensor>,
    rtol: Option<&Tensor>,
    hermitian: bool,
) -> Result<Tensor> {
    rank(a, &Tolerances::of_tensors("linalg.matrix_rank", a, atol, rtol)?, hermitian)
}

/// [`rank_tensors`] with numbers.
pub fn rank_numbers(a: &Tensor, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<Tensor> {
    rank(a, &Tolerances::of_numbers("linalg.matrix_rank", a, atol, rtol)?, hermitian)
}

/// [`rank_numbers`] with an absolute tolerance.
pub fn rank_tol(a: &Tensor, tol: f64, hermitian: bool) -> Result<Tensor> {
    rank_numbers(a, Some(tol), Some(0.0), hermitian)
}

/// [`rank_tensors`] with an absolute tolerance.
pub fn rank_tol_tensor(a: &Tensor, tol: &Tensor, hermitian: bool) -> Result<Tensor> {
    let none = ops::full(&[], Scalar::Int(0), Some(ScalarType::F64), None, Some(a.device()), None)?;
    rank_tensors(a, Some(tol), Some(&none), hermitian)
}

/// The condition number in the norm `p`, without which it is the largest singular value by the smallest.
pub fn linalg_cond(self_: &Tensor, p: Option<Scalar>) -> Result<Tensor> {
    const NAME: &str = "linalg.cond";
    matrix_sizes(NAME, "A", self_)?;
    ensure_float(NAME, "A", self_)?;
    let p = p.unwrap_or(Scalar::Int(2));
    if p.to_f64().abs() != 2.0 {
        return of_norms(self_, |x| ops::linalg_matrix_norm(x, p, &[-2, -1], false, None));
    }
    if self_.numel() == 0 {
        return ops::zeros(
            batch_sizes(self_),
            Some(self_.dtype().to_real()),
            None,
            Some(self_.device()),
            None,
        );
    }
    let values = ops::linalg_svdvals(self_, None)?;
    let (first, last) = (ops::select_int(&values, -1, 0)?, ops::select_int(&values, -1, -1)?);
    if p.to_f64() > 0.0 { ops::div_tensor(&first, &last) } else { ops::div_tensor(&last, &first) }
}

/// [`linalg_cond`] in the norm "fro" or "nuc".
pub fn linalg_cond_named(self_: &Tensor, p: &str) -> Result<Tensor> {
    ensure!(
        matches!(p, "fro" | "nuc"),
        InvalidArgument("linalg.cond", "p"),
        "linalg.cond got an invalid norm type: {p}"
    );
    ensure_float("linalg.cond", "A", self_)?;
    of_norms(self_, |x| ops::linalg_matrix_norm_str_ord(x, p, &[-2, -1], false, None))
}

/// The product of the norms of a matrix and of its inverse, infinite without one.
fn of_norms(self_: &Tensor, norm: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    square_size("linalg.cond", "A", self_)?;
    if self_.numel() == 0 {
        return ops::zeros(
            batch_sizes(self_),
            Some(self_.dtype().to_real()),
            None,
            Some(self_.device()),
            None,
        );
    }
    let (inverse, info) = ops::linalg_inv_ex(self_, false)?;
    let product = ops::mul_tensor(&norm(self_)?, &norm(&inverse)?)?;
    ops::masked_fill_scalar(&product, &ops::ne_scalar(&info, Scalar::Int(0))?, Scalar::Float(f64::INFINITY))
}

/// The sum of the singular values for `None`, and the largest or smallest of them for orders 2 and -2, of matrices in the last two
/// dimensions.
pub(super) fn norm_of_values(a: &Tensor, order: Option<f64>) -> Result<Tensor> {
    let values = ops::linalg_svdvals(&ops::contiguous(a, MemoryFormat::Contiguous)?, None)?;
    match order {
        None => ops::sum_dim_intlist(&values, Some(&[-1]), false, None),
        // The largest of no values is 0.
        Some(order) if values.size(-1)? == 0 && order > 0.0 => {
            ops::sum_dim_intlist(&values, Some(&[-1]), false, None)
        }
        Some(_) if values.size(-1)? == 0 => {
            bail!(Shape("linalg.matrix_norm", "self"), "order -2 of a matrix without elements is not defined")
        }
        Some(order) => ops::select_int(&values, -1, if order > 0.0 { 0 } else { -1 }),
    }
}
