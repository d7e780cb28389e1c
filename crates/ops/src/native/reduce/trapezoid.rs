//! `trapezoid` and `cumulative_trapezoid`: integrals of sampled functions by the trapezoidal rule.

use super::diff::neighbours;
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

/// Sums of consecutive elements, times the distance between them: twice the areas of the trapezoids.
fn double_areas(name: &str, y: &Tensor, spacing: Spacing<'_>, dim: i64) -> Result<Tensor> {
    let boolean = |t: &Tensor| t.dtype() == ScalarType::Bool;
    ensure!(!boolean(y), Dtype(name, "y"), "received a bool input for `y`, but bool is not supported");
    let d = shape::wrap_dim(dim, y.dim()).map_err(|e| e.in_operator(name))?;
    ensure!(y.dim() > 0, Index(name, "y"), "expected `y` to have at least one dimension");
    let both = |y: &Tensor| -> Result<Tensor> {
        let (before, behind) = neighbours(y, dim)?;
        before.add(&behind)
    };
    let x = match spacing {
        Spacing::Uniform(dx) => return both(&in_wide_integers(y)?)?.mul_scalar(dx),
        Spacing::Coordinates(x) => x,
    };
    ensure!(!boolean(x), Dtype(name, "x"), "received a bool input for `x`, but bool is not supported");
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
    let (from, to) = neighbours(&x, dim)?;
    to.sub(&from)?.mul(&both(y)?)
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

/// The integral of samples `y` with spacing `dx`.
pub fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    check_dx("trapezoid", dx)?;
    integral(y, Spacing::Uniform(dx), dim)
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
