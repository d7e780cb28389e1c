//! `gradient`: finite differences of sampled functions.

use super::diff::neighbours;
use crate::loops::reduce::computing_type;
use crate::tensor_iterator::result_type;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ensure};

/// Where the samples of one dimension are: equally spaced, or at given coordinates.
enum Spacing {
    Uniform(Scalar),
    Coordinates(Tensor),
}

/// The derivatives along each of `dims`, with one spacing for each.
fn gradients(self_: &Tensor, dims: &[i64], spacing: &[Spacing], edge_order: i64) -> Result<Vec<Tensor>> {
    const NAME: &str = "gradient";
    ensure!(
        matches!(edge_order, 1 | 2),
        InvalidArgument(NAME, "edge_order"),
        "torch.gradient only supports edge_order=1 and edge_order=2."
    );
    ensure!(
        dims.len() == spacing.len(),
        InvalidArgument(NAME, "spacing"),
        "expected spacing to be unspecified, a scalar, or a list of {} entries but got {}",
        dims.len(),
        spacing.len()
    );
    let wrapped = crate::native::shape::view::wrap_dims(NAME, dims, self_.dim())?;
    let x = in_floating_point(self_)?;
    let mut made = vec![];
    for (d, spacing) in wrapped.iter().zip(spacing) {
        let size = x.sizes().get(*d).copied().unwrap_or(1);
        ensure!(
            size > edge_order,
            Shape(NAME, "edge_order"),
            "expected each dimension size to be at least edge_order+1"
        );
        made.push(match spacing {
            Spacing::Uniform(h) => uniform_gradient(&x, *d as i64, *h, edge_order)?,
            Spacing::Coordinates(coordinates) => nonuniform_gradient(self_, *d, coordinates, edge_order)?,
        });
    }
    Ok(made)
}

/// Integers in the default dtype, in which slopes are computed.
fn in_floating_point(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_integral(true) { x.to(flambeau_core::default_dtype()) } else { Ok(x.clone()) }
}

/// `a * x[i] + b * x[i + 1] + c * x[i + 2]`, for `count` indices `i` from `at`.
fn three_point_stencil(x: &Tensor, dim: i64, at: i64, count: i64, [a, b, c]: [f64; 3]) -> Result<Tensor> {
    let part = |n: i64| x.narrow(dim, at + n, count);
    let outer = part(0)?.mul_scalar(a)?.add(&part(1)?.mul_scalar(b)?)?;
    outer.add(&part(2)?.mul_scalar(c)?)
}

/// Central differences, and at the ends one-sided differences of order `edge_order`.
fn uniform_gradient(x: &Tensor, dim: i64, h: Scalar, edge_order: i64) -> Result<Tensor> {
    let n = x.size(dim)?;
    let step = |at: i64| x.narrow(dim, at + 1, 1)?.sub(&x.narrow(dim, at, 1)?)?.div_scalar(h);
    let (first, last) = if edge_order == 1 {
        (step(0)?, step(n - 2)?)
    } else {
        let first = three_point_stencil(x, dim, 0, 1, [-1.5, 2.0, -0.5])?.div_scalar(h)?;
        (first, three_point_stencil(x, dim, n - 3, 1, [0.5, -2.0, 1.5])?.div_scalar(h)?)
    };
    let inside = x.narrow(dim, 2.min(n), (n - 2).max(0))?.sub(&x.narrow(dim, 0, (n - 2).max(0))?)?;
    let inside = inside.div_scalar(Scalar::Float(2.0 * h.to_f64()))?;
    ops::cat(&[first, inside, last], dim)
}

/// Derivatives of the parabolas through three consecutive samples; at the ends differences of two samples (`edge_order` 1) or
/// derivatives of the same parabolas (2). They are computed in the accumulation type, and rounded once.
fn nonuniform_gradient(x: &Tensor, d: usize, coordinates: &Tensor, edge_order: i64) -> Result<Tensor> {
    let (dim, n) = (d as i64, x.sizes()[d]);
    ensure!(
        coordinates.dim() == 1 && coordinates.sizes()[0] == n,
        Shape("gradient", "spacing"),
        "expected a 1-D coordinate tensor of {n} entries but got sizes {:?}",
        coordinates.sizes()
    );
    // The distances of integers are divided by, in the default dtype.
    let dtype = result_type([x, &in_floating_point(coordinates)?])?;
    let [x, coordinates] = [x, coordinates].map(|tensor| tensor.to(computing_type(dtype)));
    let (x, coordinates) = (&x?, &coordinates?);
    let mut sizes = DimVec::from_elem(1, x.dim());
    sizes[d] = n - 1;
    let (before, behind) = neighbours(coordinates, 0)?;
    let steps = behind.sub(&before)?.reshape(&sizes)?;
    let slopes = x.narrow(dim, 1, n - 1)?.sub(&x.narrow(dim, 0, n - 1)?)?.div(&steps)?;
    let pair =
        |t: &Tensor| Ok::<_, flambeau_core::Error>((t.narrow(dim, 0, n - 2)?, t.narrow(dim, 1, n - 2)?));
    let ((h1, h2), (s1, s2)) = (pair(&steps)?, pair(&slopes)?);
    let whole = h1.add(&h2)?;
    // The derivative of a parabola at the middle sample is the mean of the slopes on both sides, weighted by the step on the other.
    let inside = s1.mul(&h2)?.add(&s2.mul(&h1)?)?.div(&whole)?;
    let (first, last) = if edge_order == 1 {
        (slopes.narrow(dim, 0, 1)?, slopes.narrow(dim, n - 2, 1)?)
    } else {
        let bend = s2.sub(&s1)?.div(&whole)?;
        let first = s1.sub(&bend.mul(&h1)?)?.narrow(dim, 0, 1)?;
        (first, s2.add(&bend.mul(&h2)?)?.narrow(dim, n - 3, 1)?)
    };
    ops::cat(&[first, inside, last], dim)?.to(dtype)
}

fn dims_or_all(self_: &Tensor, dim: Option<i64>) -> Vec<i64> {
    dim.map_or_else(|| (0..self_.dim() as i64).collect(), |d| vec![d])
}

fn uniform(count: usize, h: Scalar) -> Vec<Spacing> {
    (0..count).map(|_| Spacing::Uniform(h)).collect()
}

/// Derivatives along one dimension or all, of samples with one spacing.
pub fn gradient_scalarint(
    self_: &Tensor,
    spacing: Option<Scalar>,
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = dims_or_all(self_, dim);
    gradients(self_, &dims, &uniform(dims.len(), spacing.unwrap_or(Scalar::Int(1))), edge_order)
}

/// Derivatives along several dimensions, of samples with one spacing.
pub fn gradient_scalararray(
    self_: &Tensor,
    spacing: Scalar,
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    gradients(self_, dim, &uniform(dim.len(), spacing), edge_order)
}

/// Derivatives along several dimensions, of samples with a spacing of 1.
pub fn gradient_array(self_: &Tensor, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    gradients(self_, dim, &uniform(dim.len(), Scalar::Int(1)), edge_order)
}

/// Derivatives along one dimension or all, of samples with a spacing for each dimension.
pub fn gradient_scalarrayint(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    gradient_scalarrayarray(self_, spacing, &dims_or_all(self_, dim), edge_order)
}

/// Derivatives along several dimensions, of samples with a spacing for each.
pub fn gradient_scalarrayarray(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let spacing: Vec<Spacing> = spacing.iter().copied().map(Spacing::Uniform).collect();
    gradients(self_, dim, &spacing, edge_order)
}

/// Derivatives along one dimension or all, of samples at given coordinates.
pub fn gradient_tensorarrayint(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    gradient_tensorarray(self_, spacing, &dims_or_all(self_, dim), edge_order)
}

/// Derivatives along several dimensions, of samples at given coordinates.
pub fn gradient_tensorarray(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let spacing: Vec<Spacing> = spacing.iter().cloned().map(Spacing::Coordinates).collect();
    gradients(self_, dim, &spacing, edge_order)
}
