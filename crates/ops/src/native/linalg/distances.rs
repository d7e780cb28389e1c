//! Distances between vectors, vectors brought to a length, and how rows of samples vary together.

use crate::loops::reduce::computing_type;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// The p-norm of a difference.
pub fn dist(self_: &Tensor, other: &Tensor, p: Scalar) -> Result<Tensor> {
    ops::norm_scalar(&self_.sub(other)?, p)
}

/// Which distances come from one matrix product.
const FROM_PRODUCTS: i64 = 25;

fn check_vectors(name: &str, tensor: &Tensor, p: f64) -> Result<()> {
    ensure!(
        tensor.dtype().is_floating_point(),
        Dtype,
        "{name}: only supports floating-point dtypes, got: {}",
        tensor.dtype()
    );
    ensure!(p >= 0.0, InvalidArgument, "{name}: only supports non-negative p values");
    Ok(())
}

/// The p-norms of all differences of a row of `x1` and a row of `x2`. Where one is long, Euclidean distances of points that lie
/// far enough apart come from a matrix product, unless `compute_mode` is 2; they do always where it is 1.
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "cdist";
    for (name, x) in [("X1", x1), ("X2", x2)] {
        ensure!(x.dim() >= 2, Shape, "{NAME}: only supports at least 2D tensors, {name} got: {}D", x.dim());
        check_vectors(NAME, x, p)?;
    }
    ensure!(
        x1.sizes().last() == x2.sizes().last(),
        Shape,
        "{NAME}: X1 and X2 must have the same number of columns. X1: {:?} X2: {:?}",
        x1.sizes().last(),
        x2.sizes().last()
    );
    let mode = compute_mode.unwrap_or(0);
    ensure!((0..=2).contains(&mode), InvalidArgument, "{NAME}: possible modes: 0, 1, 2, but was: {mode}");
    let long = x1.size(-2)? > FROM_PRODUCTS || x2.size(-2)? > FROM_PRODUCTS;
    if p == 2.0 && (mode == 1 || (mode == 0 && long)) {
        return ops::_euclidean_dist(x1, x2);
    }
    let difference = x1.unsqueeze(-2)?.sub(&x2.unsqueeze(-3)?)?;
    if difference.sizes().last() == Some(&0) {
        // Rows without elements are 0 apart, by the greatest difference too.
        return ops::sum_dim_intlist(&difference, Some(&[-1]), false, None);
    }
    ops::linalg_vector_norm(&difference, Scalar::Float(p), Some(&[-1]), false, None)
}

/// [`cdist`].
pub fn _cdist_forward(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<Tensor> {
    ops::cdist(x1, x2, p, compute_mode)
}

/// The number in a tensor of one element.
pub fn _local_scalar_dense(self_: &Tensor) -> Result<Scalar> {
    self_.item_scalar()
}

/// What part of `|a|^2 + |b|^2` a squared distance must be to come from a matrix product: of a smaller one, rounding these sums has
/// taken more than three bits.
const LEAST_PART: f64 = 0.1;

/// Euclidean distances as `|a|^2 + |b|^2 - 2ab`, in one matrix product, and by differences where points lie closer together than that
/// can tell; those of 0 have no gradient.
pub fn euclidean_dist(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    let wide = computing_type(x1.dtype());
    if wide != x1.dtype() {
        return euclidean_dist(&x1.to(wide)?, &x2.to(wide)?)?.to(x1.dtype());
    }
    let squared = |x: &Tensor| x.square()?.sum_dim_intlist(Some(&[-1]), true);
    let (a, b) = (squared(x1)?, squared(x2)?);
    let left =
        ops::cat(&[x1.mul_scalar(-2)?, a.clone(), ops::ones_like(&a, None, None, None, None, None)?], -1)?;
    let right = ops::cat(&[x2.clone(), ops::ones_like(&b, None, None, None, None, None)?, b.clone()], -1)?;
    let squares = left.matmul(&right.mT()?)?;
    // Of what is not finite too, where the sums say nothing.
    let near = squares.gt(&a.add(&b.mT()?)?.mul_scalar(LEAST_PART)?)?.logical_not()?;
    let distances = squares.masked_fill(&near, 1)?.sqrt()?;
    if near.device().is_meta() {
        return Ok(distances);
    }
    let pairs = ops::unbind_int(&ops::nonzero(&near)?, 1)?;
    if pairs.first().is_none_or(|of_first| of_first.numel() == 0) {
        return Ok(distances);
    }
    let difference = points(x1, &near, &pairs, -2)?.sub(&points(x2, &near, &pairs, -1)?)?;
    let apart = ops::linalg_vector_norm(&difference, Scalar::Float(2.0), Some(&[-1]), false, None)?;
    distances.masked_scatter(&near, &apart)
}

/// The points of pairs, given by their places in a batch of matrices: those that dimension `dim` of these counts.
fn points(x: &Tensor, matrices: &Tensor, pairs: &[Tensor], dim: i64) -> Result<Tensor> {
    let batch = pairs.len() - 2;
    let mut sizes = DimVec::from_slice(&matrices.sizes()[..batch]);
    sizes.extend([matrices.size(dim)?, x.size(-1)?]);
    let at = if dim == -1 { batch + 1 } else { batch };
    let indices: Vec<Option<Tensor>> = pairs[..batch].iter().chain([&pairs[at]]).cloned().map(Some).collect();
    ops::index_tensor(&ops::expand(x, &sizes, false)?, &indices)
}

/// The p-norms of the differences of each two rows, in the order of the pairs.
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    const NAME: &str = "pdist";
    ensure!(self_.dim() == 2, Shape, "{NAME}: only supports 2D tensors, got: {}D", self_.dim());
    check_vectors(NAME, self_, p)?;
    let rows = self_.sizes()[0];
    let pairs = ops::triu_indices(rows, rows, 1, None, None, Some(self_.device()), None)?;
    let of = |n: i64| self_.index_select(0, &pairs.select(0, n)?);
    ops::linalg_vector_norm(&of(0)?.sub(&of(1)?)?, Scalar::Float(p), Some(&[-1]), false, None)
}

/// `self_` with every slice of `dim` whose p-norm is above `maxnorm` brought down to it.
pub fn renorm(self_: &Tensor, p: Scalar, dim: i64, maxnorm: Scalar) -> Result<Tensor> {
    const NAME: &str = "renorm";
    ensure!(p.to_f64() > 0.0, InvalidArgument, "{NAME}: non-positive-norm not supported");
    ensure!(
        maxnorm.to_f64() >= 0.0,
        InvalidArgument,
        "{NAME}: expected maxnorm to be >= 0 but got {maxnorm}"
    );
    let rank = self_.dim();
    ensure!(rank > 1, Shape, "{NAME}: input needs at least 2 dimensions, got {rank} dimensions");
    let d = shape::wrap_dim(dim, rank).map_err(|e| e.context(NAME))?;
    let others: DimVec = (0..rank as i64).filter(|other| *other != d as i64).collect();
    let wide = computing_type(self_.dtype());
    let norm = ops::linalg_vector_norm(self_, p, Some(&others), true, Some(wide))?;
    // The small number is PyTorch's, against a division by 0.
    let down = norm.add_scalar(1e-7, 1)?.reciprocal()?.mul_scalar(maxnorm)?;
    let factor = ops::where_scalarother(&norm.gt_scalar(maxnorm)?, &down, Scalar::Int(1))?;
    ops::contiguous(&self_.mul(&factor.to(self_.dtype())?)?, MemoryFormat::Contiguous)
}

/// `self_` added up to `size`, to which it does not broadcast but from which it might have come.
pub fn sum_to_size(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = self_.sizes();
    let missing = sizes.len().saturating_sub(size.len());
    let expandable = size.len() <= sizes.len()
        && size.iter().zip(&sizes[missing..]).all(|(wanted, own)| wanted == own || *wanted == 1);
    ensure!(expandable, Shape, "sum_to_size: size {size:?} is not expandable to size {sizes:?}.");
    let added: DimVec = (missing..sizes.len())
        .filter(|d| size[*d - missing] == 1 && sizes[*d] != 1)
        .chain(0..missing)
        .map(|d| d as i64)
        .collect();
    if size.is_empty() {
        return self_.sum();
    }
    if size == sizes {
        return Ok(self_.clone());
    }
    let summed = self_.sum_dim_intlist(Some(&added), true)?;
    summed.reshape(size)
}

/// The weights of samples: how often each counts, times how much.
fn weights(
    name: &str,
    count: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    for (what, weights) in [("fweights", fweights), ("aweights", aweights)] {
        let Some(w) = weights else { continue };
        ensure!(
            w.dim() <= 1,
            Shape,
            "{name}: expected {what} to have one or fewer dimensions but got {}",
            w.dim()
        );
        let kind =
            if what == "fweights" { w.dtype().is_integral(false) } else { w.dtype().is_floating_point() };
        ensure!(kind, Dtype, "{name}: {what} of dtype {} are not supported", w.dtype());
        ensure!(
            w.numel() == count,
            Shape,
            "{name}: expected {what} to have the same numel as there are observations in the input but got {} != {count}",
            w.numel()
        );
        let least = if count == 0 { 0.0 } else { w.min()?.item_scalar()?.to_f64() };
        ensure!(least >= 0.0, InvalidArgument, "{name}: {what} cannot be negative");
    }
    Ok(match (fweights, aweights) {
        (Some(f), Some(a)) => Some(f.mul(a)?),
        (one, other) => one.or(other).cloned(),
    })
}

/// How rows of samples vary together: the products of their distances from the mean, over the count less `correction`.
pub fn cov(
    self_: &Tensor,
    correction: i64,
    fweights: Option<&Tensor>,
    aweights: Option<&Tensor>,
) -> Result<Tensor> {
    const NAME: &str = "cov";
    ensure!(
        self_.dim() <= 2,
        Shape,
        "{NAME}: expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    ensure!(self_.dtype() != ScalarType::Bool, Dtype, "{NAME}: bool dtype is not supported for input");
    let rows = if self_.dim() < 2 { self_.reshape(&[1, -1])? } else { self_.clone() };
    let count = rows.sizes()[1];
    let Some(w) = weights(NAME, count, fweights, aweights)? else {
        let centred = rows.sub(&rows.sum_dim_intlist(Some(&[1]), true)?.div_scalar(count as f64)?)?;
        let left = (count as f64 - correction as f64).max(0.0);
        return centred.mm(&centred.t()?)?.div_scalar(left)?.squeeze();
    };
    let total = w.sum()?;
    ensure!(
        total.item_scalar()?.to_f64() != 0.0,
        InvalidArgument,
        "{NAME}: weights sum to zero, can't be normalized"
    );
    let centred = rows.sub(&rows.mul(&w)?.sum_dim_intlist(Some(&[1]), true)?.div(&total)?)?;
    let products = centred.mm(&centred.mul(&w)?.t()?)?;
    // Tensors to the end: weights have gradients too.
    let left = match aweights {
        Some(a) if correction != 0 => total.sub(&w.mul(a)?.sum()?.mul_scalar(correction)?.div(&total)?)?,
        _ => total.sub_scalar(correction, 1)?,
    };
    products.div(&left.clamp(Some(Scalar::Int(0)), None)?)?.squeeze()
}

/// [`cov`] over the deviations: from -1 to 1.
pub fn corrcoef(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2,
        Shape,
        "corrcoef: expected input to have two or fewer dimensions but got an input with {} dimensions",
        self_.dim()
    );
    let c = ops::cov(self_, 1, None, None)?;
    match c.dim() {
        0 => c.div(&c),
        2 => {
            let deviation = c.diagonal(0, 0, 1)?.sqrt()?;
            let scaled = c.div(&deviation.unsqueeze(1)?)?.div(&deviation.unsqueeze(0)?)?;
            scaled.clamp(Some(Scalar::Int(-1)), Some(Scalar::Int(1)))
        }
        rank => bail!(Internal, "corrcoef: expected a matrix but got {rank} dimensions"),
    }
}

/// The p-norm of `x1 - x2 + eps` along the last dimension; `eps` keeps derivatives of a root away from 0.
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor> {
    let apart = x1.sub(x2)?.add_scalar(eps, 1)?;
    ops::norm_scalaropt_dim(&apart, Some(Scalar::Float(p)), &[-1], keepdim)
}
