//! `trapezoid` and `cumulative_trapezoid`: integrals of sampled functions by the trapezoidal rule.

use super::diff::neighbours;
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::ops::options::SliceOptions;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, ensure, shape};

/// Refuses a distance that is no real number.
fn check_dx(name: &str, dx: Scalar) -> Result<()> {
    let is_real = !dx.is_complex() && !matches!(dx, Scalar::Bool(_));
    ensure!(is_real, InvalidArgument(name, "dx"), "Currently, we only support dx as a real number.");
    Ok(())
}

/// Integers in int64, so that their sums do not overflow.
fn in_wide_integers(t: &Tensor) -> Result<Tensor> {
    let is_narrow = t.dtype().is_integral(false) && t.dtype() != ScalarType::U64;
    if is_narrow { t.to(ScalarType::I64) } else { Ok(t.clone()) }
}

fn is_bool(t: &Tensor) -> bool {
    t.dtype() == ScalarType::Bool
}

/// The dimension along which `y` is integrated, as a nonnegative index.
fn checked_dim(name: &str, y: &Tensor, dim: i64) -> Result<usize> {
    ensure!(!is_bool(y), Dtype(name, "y"), "received a bool input for `y`, but bool is not supported");
    let d = shape::wrap_dim(dim, y.dim()).map_err(|e| e.in_operator(name))?;
    ensure!(y.dim() > 0, Index(name, "y"), "expected `y` to have at least one dimension");
    Ok(d)
}

/// Sums of consecutive elements, times the distance between them: twice the areas of the trapezoids.
fn double_areas(name: &str, y: &Tensor, spacing: Spacing<'_>, dim: i64) -> Result<Tensor> {
    let d = checked_dim(name, y, dim)?;
    let x = match spacing {
        Spacing::Uniform(dx) => {
            let y = in_wide_integers(y)?;
            return of_neighbours([&y], d, |[(before, behind)]| before.add(behind)?.mul_scalar(dx));
        }
        Spacing::Coordinates(x) => x,
    };
    ensure!(!is_bool(x), Dtype(name, "x"), "received a bool input for `x`, but bool is not supported");
    let x = if x.dim() == 1 {
        ensure!(
            x.sizes()[0] == y.sizes()[d],
            Shape(name, "x"),
            "There must be one `x` value for each sample point"
        );
        let mut sizes = DimVec::from_elem(1, y.dim());
        sizes[d] = x.sizes()[0];
        x.reshape(&sizes)?
    } else {
        let missing = y.dim().saturating_sub(x.dim());
        let sizes: DimVec = std::iter::repeat_n(1, missing).chain(x.sizes().iter().copied()).collect();
        x.reshape(&sizes)?
    };
    of_neighbours([&x, y], d, |[(from, to), (before, behind)]| to.sub(from)?.mul(&before.add(behind)?))
}

/// A formula of the neighbours along a dimension of each tensor: the elements but the last, and those but the first.
///
/// Where rows are short, of all elements in memory: what it yields for the end of a row and the start of the next one is not seen.
fn of_neighbours<const N: usize>(
    tensors: [&Tensor; N],
    d: usize,
    formula: impl Fn(&[(Tensor, Tensor); N]) -> Result<Tensor>,
) -> Result<Tensor> {
    let y = tensors[N - 1];
    if !tensors.iter().all(|t| has_short_rows(t, d) && t.sizes() == y.sizes()) {
        return formula(&each_pair(tensors, |t| neighbours(t, d as i64))?);
    }
    let (step, count) = (y.strides()[d], y.numel() - y.strides()[d]);
    let values = formula(&each_pair(tensors, |t| {
        let flat = t.view(&[-1])?;
        Ok((flat.narrow(0, 0, count)?, flat.narrow(0, step, count)?))
    })?)?;
    let mut sizes = DimVec::from_slice(y.sizes());
    sizes[d] -= 1;
    // In contiguous memory, since the order of a sum depends on strides.
    values.as_strided(&sizes, y.strides())?.contiguous()
}

/// The pair of each tensor.
fn each_pair<const N: usize>(
    tensors: [&Tensor; N],
    pair: impl Fn(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<[(Tensor, Tensor); N]> {
    let mut pairs = tensors.map(|t| (t.clone(), t.clone()));
    for both in &mut pairs {
        *both = pair(&both.0)?;
    }
    Ok(pairs)
}

/// Whether there are several rows, of few elements, in contiguous memory that the CPU's kernels read, and nothing is recorded: a gradient
/// would be affected by values that are not seen.
fn has_short_rows(t: &Tensor, d: usize) -> bool {
    const SHORT: i64 = 64;
    let row = shape::product(&t.sizes()[d..]);
    t.sizes()[d] > 1 && row <= SHORT && t.numel() > row && t.is_contiguous() && dispatches_to_cpu(t.key_set())
}

/// Where samples are: at given coordinates, or equally spaced.
enum Spacing<'a> {
    Coordinates(&'a Tensor),
    Uniform(Scalar),
}

fn integral(y: &Tensor, spacing: Spacing<'_>, dim: i64) -> Result<Tensor> {
    const NAME: &str = "trapezoid";
    let d = shape::wrap_dim(dim, y.dim()).map_err(|e| e.in_operator(NAME))?;
    if y.sizes().get(d) == Some(&0) {
        let mut sizes = DimVec::from_slice(y.sizes());
        sizes.remove(d);
        return y.new_zeros(&sizes, ());
    }
    double_areas(NAME, y, spacing, dim)?.sum_dim(dim)?.div_scalar(2.0)
}

/// The integral of samples `y` at coordinates `x`.
pub fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    integral(y, Spacing::Coordinates(x), dim)
}

/// The integral of samples `y` with spacing `dx`: those between the ends and half of the ends, so that no areas are in memory.
pub fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    const NAME: &str = "trapezoid";
    check_dx(NAME, dx)?;
    let d = shape::wrap_dim(dim, y.dim()).map_err(|e| e.in_operator(NAME))?;
    let n = y.sizes().get(d).copied().unwrap_or(0);
    if n < 2 {
        return integral(y, Spacing::Uniform(dx), dim);
    }
    let dim = checked_dim(NAME, y, dim)? as i64;
    // Halves of the ends, so that their sum does not overflow.
    let ends = y.slice_with(dim, None, None, SliceOptions::new().step(n - 1))?.mul_scalar(0.5)?;
    y.slice(dim, 1, n - 1)?.sum_dim(dim)?.add(&ends.sum_dim(dim)?)?.mul_scalar(dx)
}

/// As [`trapezoid_dx`].
pub fn trapz_dx(y: &Tensor, dx: f64, dim: i64) -> Result<Tensor> {
    ops::trapezoid_dx(y, Scalar::Float(dx), dim)
}

/// The integral of samples `y` at coordinates `x` up to each one but the first.
pub fn cumulative_trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    double_areas("cumulative_trapezoid", y, Spacing::Coordinates(x), dim)?.cumsum(dim)?.div_scalar(2.0)
}

/// The integral of samples `y` with spacing `dx` up to each one but the first.
pub fn cumulative_trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    check_dx("cumulative_trapezoid", dx)?;
    // Half of the distance, so that areas do not overflow before they are halved.
    let half = Scalar::Float(dx.to_f64() / 2.0);
    double_areas("cumulative_trapezoid", y, Spacing::Uniform(half), dim)?.cumsum(dim)
}
