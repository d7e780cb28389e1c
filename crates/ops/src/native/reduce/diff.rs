//! Differences of neighbours, areas under sampled curves, and slopes of sampled functions.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, ensure, shape};

/// The elements of a dimension but the last, and but the first.
fn neighbours(tensor: &Tensor, dim: i64) -> Result<(Tensor, Tensor)> {
    Ok((tensor.slice(dim, Some(0), Some(-1), 1)?, tensor.slice(dim, Some(1), None, 1)?))
}

/// What each element adds to the one before, `n` times over; of truth values, whether they differ.
pub fn diff(
    self_: &Tensor,
    n: i64,
    dim: i64,
    prepend: Option<&Tensor>,
    append: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Shape, "diff: expects input to be at least one-dimensional");
    ensure!(n >= 0, InvalidArgument, "diff: order must be non-negative but got {n}");
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context("diff"))?;
    for other in prepend.iter().chain(&append) {
        ensure!(
            other.dim() == self_.dim(),
            Shape,
            "diff: expects prepend or append to be the same dimension as input"
        );
        let fits = (0..self_.dim()).all(|at| at == d || other.sizes()[at] == self_.sizes()[at]);
        ensure!(
            fits,
            Shape,
            "diff: expects the shape of tensor to prepend or append to match that of input except along the differencing \
             dimension; input.size() = {:?} but got {:?}",
            self_.sizes(),
            other.sizes()
        );
    }
    let parts: Vec<Tensor> = [prepend, Some(self_), append].into_iter().flatten().cloned().collect();
    let mut made = if parts.len() > 1 && n > 0 { ops::cat(&parts, dim)? } else { self_.clone() };
    if n == 0 {
        return ops::clone(&made, None);
    }
    for _ in 0..n.min(made.sizes()[d]) {
        let (before, behind) = neighbours(&made, dim)?;
        made = if made.dtype() == ScalarType::Bool {
            behind.logical_xor(&before)?
        } else {
            behind.sub(&before)?
        };
    }
    Ok(made)
}

/// Sums of neighbours, each times the way between them: twice the areas.
fn areas(name: &str, y: &Tensor, way: Way<'_>, dim: i64) -> Result<Tensor> {
    let boolean = |t: &Tensor| t.dtype() == ScalarType::Bool;
    ensure!(!boolean(y), Dtype, "{name}: received a bool input for `y`, but bool is not supported");
    let d = shape::wrap_dim(dim, y.dim()).map_err(|e| e.context(name))?;
    ensure!(y.dim() > 0, Index, "{name}: expected `y` to have at least one dimension");
    let (before, behind) = neighbours(y, dim)?;
    let both = before.add(&behind)?;
    let x = match way {
        Way::Equal(dx) => return both.mul_scalar(dx),
        Way::Places(x) => x,
    };
    ensure!(!boolean(x), Dtype, "{name}: received a bool input for `x`, but bool is not supported");
    let x = if x.dim() == 1 {
        ensure!(
            x.sizes()[0] == y.sizes()[d],
            Shape,
            "{name}: There must be one `x` value for each sample point"
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
    to.sub(&from)?.mul(&both)
}

/// How far apart samples are.
enum Way<'a> {
    Places(&'a Tensor),
    Equal(Scalar),
}

fn whole_area(y: &Tensor, way: Way<'_>, dim: i64) -> Result<Tensor> {
    const NAME: &str = "trapezoid";
    let d = shape::wrap_dim(dim, y.dim()).map_err(|e| e.context(NAME))?;
    if y.sizes().get(d) == Some(&0) {
        let mut sizes = DimVec::from_slice(y.sizes());
        sizes.remove(d);
        return y.new_zeros(&sizes, ());
    }
    areas(NAME, y, way, dim)?.sum_dim_intlist(Some(&[dim]), false)?.div_scalar(2.0)
}

/// The area under `y` over the places `x`.
pub fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    whole_area(y, Way::Places(x), dim)
}

/// The area under `y` over places `dx` apart.
pub fn trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    whole_area(y, Way::Equal(dx), dim)
}

/// As [`trapezoid_dx`].
pub fn trapz_dx(y: &Tensor, dx: f64, dim: i64) -> Result<Tensor> {
    ops::trapezoid_dx(y, Scalar::Float(dx), dim)
}

/// The area under `y` up to each of the places `x` but the first.
pub fn cumulative_trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    areas("cumulative_trapezoid", y, Way::Places(x), dim)?.cumsum(dim)?.div_scalar(2.0)
}

/// The same over places `dx` apart.
pub fn cumulative_trapezoid_dx(y: &Tensor, dx: Scalar, dim: i64) -> Result<Tensor> {
    areas("cumulative_trapezoid", y, Way::Equal(dx), dim)?.cumsum(dim)?.div_scalar(2.0)
}

/// The distances between samples along one dimension.
enum Spacing {
    Equal(Scalar),
    Places(Tensor),
}

/// The slopes along each of `dims`, with one spacing for each.
fn slopes(self_: &Tensor, dims: &[i64], spacing: &[Spacing], edge_order: i64) -> Result<Vec<Tensor>> {
    const NAME: &str = "gradient";
    ensure!(
        matches!(edge_order, 1 | 2),
        InvalidArgument,
        "{NAME}: torch.gradient only supports edge_order=1 and edge_order=2."
    );
    ensure!(
        dims.len() == spacing.len(),
        InvalidArgument,
        "{NAME}: expected spacing to be unspecified, a scalar, or a list of {} entries but got {}",
        dims.len(),
        spacing.len()
    );
    let wrapped = crate::native::shape::view::wrap_dims(NAME, dims, self_.dim())?;
    let x = if self_.dtype().is_integral(true) {
        self_.to(flambeau_core::default_dtype())?
    } else {
        self_.clone()
    };
    let mut made = vec![];
    for (d, spacing) in wrapped.iter().zip(spacing) {
        let size = x.sizes().get(*d).copied().unwrap_or(1);
        ensure!(size > edge_order, Shape, "{NAME}: expected each dimension size to be at least edge_order+1");
        made.push(match spacing {
            Spacing::Equal(h) => even_slopes(&x, *d as i64, *h, edge_order)?,
            Spacing::Places(places) => uneven_slopes(&x, *d, places, edge_order)?,
        });
    }
    Ok(made)
}

/// `a * x[at] + b * x[at + 1] + c * x[at + 2]`, of `count` places from `at`.
fn three(x: &Tensor, dim: i64, at: i64, count: i64, [a, b, c]: [f64; 3]) -> Result<Tensor> {
    let part = |n: i64| x.narrow(dim, at + n, count);
    let outer = part(0)?.mul_scalar(a)?.add(&part(1)?.mul_scalar(b)?)?;
    outer.add(&part(2)?.mul_scalar(c)?)
}

fn even_slopes(x: &Tensor, dim: i64, h: Scalar, edge_order: i64) -> Result<Tensor> {
    let n = x.size(dim)?;
    let step = |at: i64| x.narrow(dim, at + 1, 1)?.sub(&x.narrow(dim, at, 1)?)?.div_scalar(h);
    let (first, last) = if edge_order == 1 {
        (step(0)?, step(n - 2)?)
    } else {
        let first = three(x, dim, 0, 1, [-1.5, 2.0, -0.5])?.div_scalar(h)?;
        (first, three(x, dim, n - 3, 1, [0.5, -2.0, 1.5])?.div_scalar(h)?)
    };
    let inside = x.narrow(dim, 2.min(n), (n - 2).max(0))?.sub(&x.narrow(dim, 0, (n - 2).max(0))?)?;
    let inside = inside.div_scalar(Scalar::Float(2.0 * h.to_f64()))?;
    ops::cat(&[first, inside, last], dim)
}

/// Slopes of parabolas through three samples each, and at the ends of lines or of the same parabolas.
fn uneven_slopes(x: &Tensor, d: usize, places: &Tensor, edge_order: i64) -> Result<Tensor> {
    let (dim, n) = (d as i64, x.sizes()[d]);
    ensure!(
        places.dim() == 1 && places.sizes()[0] == n,
        Shape,
        "gradient: expected a 1-D coordinate tensor of {n} entries but got sizes {:?}",
        places.sizes()
    );
    let mut sizes = DimVec::from_elem(1, x.dim());
    sizes[d] = n - 1;
    let steps =
        places.slice(0, Some(1), None, 1)?.sub(&places.slice(0, Some(0), Some(-1), 1)?)?.reshape(&sizes)?;
    let slopes = x.narrow(dim, 1, n - 1)?.sub(&x.narrow(dim, 0, n - 1)?)?.div(&steps)?;
    let pair =
        |t: &Tensor| Ok::<_, flambeau_core::Error>((t.narrow(dim, 0, n - 2)?, t.narrow(dim, 1, n - 2)?));
    let ((h1, h2), (s1, s2)) = (pair(&steps)?, pair(&slopes)?);
    let whole = h1.add(&h2)?;
    // The slope of a parabola in its middle is the mean of the slopes beside it, the shorter step weighing more.
    let inside = s1.mul(&h2)?.add(&s2.mul(&h1)?)?.div(&whole)?;
    let (first, last) = if edge_order == 1 {
        (slopes.narrow(dim, 0, 1)?, slopes.narrow(dim, n - 2, 1)?)
    } else {
        let bend = s2.sub(&s1)?.div(&whole)?;
        let first = s1.sub(&bend.mul(&h1)?)?.narrow(dim, 0, 1)?;
        (first, s2.add(&bend.mul(&h2)?)?.narrow(dim, n - 3, 1)?)
    };
    ops::cat(&[first, inside, last], dim)
}

fn dims_or_all(self_: &Tensor, dim: Option<i64>) -> Vec<i64> {
    dim.map_or_else(|| (0..self_.dim() as i64).collect(), |d| vec![d])
}

fn equal(count: usize, h: Scalar) -> Vec<Spacing> {
    (0..count).map(|_| Spacing::Equal(h)).collect()
}

/// Slopes along one dimension or all, over samples `spacing` apart.
pub fn gradient_scalarint(
    self_: &Tensor,
    spacing: Option<Scalar>,
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let dims = dims_or_all(self_, dim);
    slopes(self_, &dims, &equal(dims.len(), spacing.unwrap_or(Scalar::Int(1))), edge_order)
}

/// Slopes along several dimensions, over samples `spacing` apart.
pub fn gradient_scalararray(
    self_: &Tensor,
    spacing: Scalar,
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    slopes(self_, dim, &equal(dim.len(), spacing), edge_order)
}

/// Slopes along several dimensions, over samples 1 apart.
pub fn gradient_array(self_: &Tensor, dim: &[i64], edge_order: i64) -> Result<Vec<Tensor>> {
    slopes(self_, dim, &equal(dim.len(), Scalar::Int(1)), edge_order)
}

/// Slopes over samples as far apart as a number for each dimension says.
pub fn gradient_scalarrayint(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    gradient_scalarrayarray(self_, spacing, &dims_or_all(self_, dim), edge_order)
}

/// Slopes along several dimensions, over samples as far apart as a number for each says.
pub fn gradient_scalarrayarray(
    self_: &Tensor,
    spacing: &[Scalar],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let spacing: Vec<Spacing> = spacing.iter().copied().map(Spacing::Equal).collect();
    slopes(self_, dim, &spacing, edge_order)
}

/// Slopes over samples at given places.
pub fn gradient_tensorarrayint(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: Option<i64>,
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    gradient_tensorarray(self_, spacing, &dims_or_all(self_, dim), edge_order)
}

/// Slopes along several dimensions, over samples at given places.
pub fn gradient_tensorarray(
    self_: &Tensor,
    spacing: &[Tensor],
    dim: &[i64],
    edge_order: i64,
) -> Result<Vec<Tensor>> {
    let spacing: Vec<Spacing> = spacing.iter().cloned().map(Spacing::Places).collect();
    slopes(self_, dim, &spacing, edge_order)
}
