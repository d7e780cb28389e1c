//! Distances between vectors: `dist`, `cdist`, `pdist`, `pairwise_distance`.

use crate::enums::CdistComputeMode;
use crate::loops::reduce::computing_type;
use crate::ops::options::SumOptions;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

/// The p-norm of a difference.
pub fn dist(self_: &Tensor, other: &Tensor, p: Scalar) -> Result<Tensor> {
    ops::norm_scalar(&self_.sub(other)?, p)
}

/// With more rows than this, Euclidean distances are computed by a matrix product.
const FROM_PRODUCTS: i64 = 25;

fn check_vectors(name: &str, tensor: &Tensor, p: f64) -> Result<()> {
    ensure!(
        tensor.dtype().is_floating_point(),
        Dtype(name),
        "only supports floating-point dtypes, got: {}",
        tensor.dtype()
    );
    ensure!(p >= 0.0, InvalidArgument(name, "p"), "only supports non-negative p values");
    Ok(())
}

/// The p-norms of all differences of a row of `x1` and a row of `x2`. Euclidean distances are computed by a matrix product if one
/// operand has many rows, unless `compute_mode` is 2, or always if it is 1.
pub fn cdist(x1: &Tensor, x2: &Tensor, p: f64, compute_mode: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "cdist";
    for (name, x) in [("X1", x1), ("X2", x2)] {
        ensure!(
            x.dim() >= 2,
            Shape(NAME, name.to_lowercase()),
            "only supports at least 2D tensors, {name} got: {}D",
            x.dim()
        );
        check_vectors(NAME, x, p)?;
    }
    ensure!(
        x1.sizes().last() == x2.sizes().last(),
        Shape(NAME, "x2"),
        "X1 and X2 must have the same number of columns. X1: {:?} X2: {:?}",
        x1.sizes().last(),
        x2.sizes().last()
    );
    let number = compute_mode.unwrap_or_default();
    let Some(mode) = CdistComputeMode::from_int(number) else {
        bail!(InvalidArgument(NAME, "compute_mode"), "possible modes: 0, 1, 2, but was: {number}")
    };
    let long = x1.size(-2)? > FROM_PRODUCTS || x2.size(-2)? > FROM_PRODUCTS;
    let by_product = match mode {
        CdistComputeMode::ByProductIfLarge => long,
        CdistComputeMode::ByProduct => true,
        CdistComputeMode::Direct => false,
    };
    if p == 2.0 && by_product {
        return ops::_euclidean_dist(x1, x2);
    }
    let difference = x1.unsqueeze(-2)?.sub(&x2.unsqueeze(-3)?)?;
    if difference.sizes().last() == Some(&0) {
        // The distance of rows without elements is 0, for the maximum norm too, which has no identity element.
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

/// The smallest fraction of `|a|^2 + |b|^2` for which a squared distance is taken from the matrix product: in smaller ones
/// cancellation loses more than three bits.
const MIN_FRACTION: f64 = 0.1;

/// Euclidean distances as the root of `|a|^2 + |b|^2 - 2ab`, in one matrix product, and by differences for points that are close
/// together, where that would cancel. Distances of 0 have no gradient.
pub fn euclidean_dist(x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
    let wide = computing_type(x1.dtype());
    if wide != x1.dtype() {
        return euclidean_dist(&x1.to(wide)?, &x2.to(wide)?)?.to(x1.dtype());
    }
    let squared = |x: &Tensor| x.square()?.sum_with(SumOptions::new().dim(&[-1]).keepdim(true));
    let (a, b) = (squared(x1)?, squared(x2)?);
    let left =
        ops::cat(&[x1.mul_scalar(-2)?, a.clone(), ops::ones_like(&a, None, None, None, None, None)?], -1)?;
    let right = ops::cat(&[x2.clone(), ops::ones_like(&b, None, None, None, None, None)?, b.clone()], -1)?;
    let squares = left.matmul(&right.mt()?)?;
    // Also true for distances that are not finite, for which the comparison is false.
    let near = squares.gt(&a.add(&b.mt()?)?.mul_scalar(MIN_FRACTION)?)?.logical_not()?;
    let distances = squares.masked_fill(&near, 1)?.sqrt()?;
    if near.device().is_meta() {
        return Ok(distances);
    }
    let pairs = ops::unbind_int(&ops::nonzero(&near)?, 1)?;
    if pairs.first().is_none_or(|of_first| of_first.numel() == 0) {
        return Ok(distances);
    }
    let difference = points(x1, &near, &pairs, -2)?.sub(&points(x2, &near, &pairs, -1)?)?;
    let exact = ops::linalg_vector_norm(&difference, Scalar::Float(2.0), Some(&[-1]), false, None)?;
    distances.masked_scatter(&near, &exact)
}

/// The points of pairs, which are given by their indices in a batch of distance matrices: those along dimension `dim` of these.
fn points(x: &Tensor, matrices: &Tensor, pairs: &[Tensor], dim: i64) -> Result<Tensor> {
    let batch = pairs.len() - 2;
    let mut sizes = DimVec::from_slice(&matrices.sizes()[..batch]);
    sizes.extend([matrices.size(dim)?, x.size(-1)?]);
    let index_dim = if dim == -1 { batch + 1 } else { batch };
    let indices: Vec<Option<Tensor>> =
        pairs[..batch].iter().chain([&pairs[index_dim]]).cloned().map(Some).collect();
    ops::index_tensor(&ops::expand(x, &sizes, false)?, &indices)
}

/// The p-norms of the differences of each two rows, in the order of the pairs.
pub fn pdist(self_: &Tensor, p: f64) -> Result<Tensor> {
    const NAME: &str = "pdist";
    ensure!(self_.dim() == 2, Shape(NAME, "self"), "only supports 2D tensors, got: {}D", self_.dim());
    check_vectors(NAME, self_, p)?;
    let rows = self_.sizes()[0];
    let pairs = ops::triu_indices(rows, rows, 1, None, None, Some(self_.device()), None)?;
    if self_.sizes()[1] < LONG_ROW {
        let upper = pairs.select(0, 0)?.mul_scalar(rows)?.add(&pairs.select(0, 1)?)?;
        return distances_of_all(self_, p)?.reshape(&[-1])?.index_select(0, &upper);
    }
    let of = |n: i64| self_.index_select(0, &pairs.select(0, n)?);
    ops::linalg_vector_norm(&of(0)?.sub(&of(1)?)?, Scalar::Float(p), Some(&[-1]), false, None)
}

/// Rows of fewer elements are subtracted from all others, which takes less time than to gather those of each pair.
const LONG_ROW: i64 = 16;

/// The p-norms of the differences of any two rows: a matrix with zeros on its diagonal. Columns come first, so that the elements of many
/// differences are computed together.
fn distances_of_all(rows: &Tensor, p: f64) -> Result<Tensor> {
    let columns = ops::contiguous(&ops::transpose_int(rows, 0, 1)?, MemoryFormat::Contiguous)?;
    let difference = columns.unsqueeze(2)?.sub(&columns.unsqueeze(1)?)?;
    // A row with an infinite element differs from itself by NaN, which would reach its gradient.
    let same = ops::eye(rows.sizes()[0], Some(ScalarType::Bool), None, Some(rows.device()), None)?;
    ops::linalg_vector_norm(&difference.masked_fill(&same, 0)?, Scalar::Float(p), Some(&[0]), false, None)
}

/// `self_` summed over the dimensions along which `size` would be expanded to its sizes: the gradient of an expansion.
pub fn sum_to_size(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    let sizes = self_.sizes();
    let missing = sizes.len().saturating_sub(size.len());
    let expandable = size.len() <= sizes.len()
        && size.iter().zip(&sizes[missing..]).all(|(size, own)| size == own || *size == 1);
    ensure!(expandable, Shape("sum_to_size", "size"), "size {size:?} is not expandable to size {sizes:?}.");
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
    let summed = self_.sum_with(SumOptions::new().dim(&added).keepdim(true))?;
    summed.reshape(size)
}

/// The p-norm of `x1 - x2 + eps` along the last dimension; `eps` avoids the infinite derivative of the root at 0.
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor> {
    let difference = x1.sub(x2)?.add_scalar(eps)?;
    ops::norm_scalaropt_dim(&difference, Some(Scalar::Float(p)), &[-1], keepdim)
}
