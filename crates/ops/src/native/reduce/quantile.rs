//! `quantile` and `nanquantile`.

use crate::enums::QuantileInterpolation;
use crate::ops::options::{AnyOptions, SumOptions};
use crate::{Tensor, ops};
use flambeau_core::{DimVec, DispatchKey, Result, Scalar, ScalarType, bail, ensure, fallible, shape};

/// Interpolates between the elements at the ranks below and above `rank`.
fn between(
    below: &Tensor,
    above: &Tensor,
    rank: &Tensor,
    interpolation: QuantileInterpolation,
) -> Result<Tensor> {
    let fraction = match interpolation {
        QuantileInterpolation::Midpoint => return below.lerp_scalar(above, 0.5),
        _ => rank.sub(&rank.floor()?)?,
    };
    below.lerp(above, &fraction)
}

/// The quantiles `q` of each row.
fn quantiles(
    name: &str,
    self_: &Tensor,
    q: &Tensor,
    (dim, keepdim): (Option<i64>, bool),
    interpolation: &str,
    only_numbers: bool,
) -> Result<Tensor> {
    ensure!(self_.numel() > 0, Shape(name, "self"), "input tensor must be non-empty");
    ensure!(q.dim() <= 1, Shape(name, "q"), "q must be a scalar or 1D tensor");
    let wide = matches!(self_.dtype(), ScalarType::F32 | ScalarType::F64);
    ensure!(wide, Dtype(name, "self"), "input tensor must be either float or double dtype");
    ensure!(self_.dtype() == q.dtype(), Dtype(name, "q"), "q tensor must be same dtype as the input tensor");
    let Some(interpolation) = QuantileInterpolation::from_text(interpolation) else {
        bail!(
            InvalidArgument(name, "interpolation"),
            "interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    };
    if !q.device().is_meta() {
        let inside = q.ge_scalar(0)?.logical_and(&q.le_scalar(1)?)?.all()?;
        ensure!(
            inside.item_scalar()?.to_bool(),
            InvalidArgument(name, "q"),
            "q values must be in the range [0, 1]"
        );
    }
    let d = shape::wrap_dim(dim.unwrap_or(0), self_.dim()).map_err(|e| e.in_operator(name))?;
    let rows = match dim {
        Some(dim) if self_.dim() > 0 => self_.movedim(&[dim], &[-1])?,
        _ => self_.reshape(&[-1])?,
    };
    let ranks = ranks(&rows, q, only_numbers)?;
    let whole = |rounded: Result<Tensor>| rounded?.to(ScalarType::I64);
    let made = match interpolation {
        QuantileInterpolation::Lower => at_rank(&rows, q, &whole(ranks.floor())?)?,
        QuantileInterpolation::Higher => at_rank(&rows, q, &whole(ranks.ceil())?)?,
        QuantileInterpolation::Nearest => at_rank(&rows, q, &whole(ranks.round())?)?,
        QuantileInterpolation::Linear | QuantileInterpolation::Midpoint => {
            let around = [whole(ranks.floor())?, whole(ranks.ceil())?];
            let [below, above] = at_ranks(&rows, q, around)?;
            between(&below, &above, &ranks, interpolation)?
        }
    };
    // The quantiles are in the last dimension of `made`; of a result for several `q` they are the first one.
    let mut sizes = DimVec::from_slice(&made.sizes()[..made.dim() - 1]);
    if keepdim {
        match dim {
            Some(_) if self_.dim() > 0 => sizes.insert(d, 1),
            _ => sizes = DimVec::from_elem(1, self_.dim()),
        }
    }
    if q.dim() == 0 {
        return made.reshape(&sizes);
    }
    sizes.insert(0, q.numel());
    made.movedim(&[-1], &[0])?.reshape(&sizes)
}

/// The maximum number of elements of a row that are selected one by one; for more the row is sorted.
const MAX_SELECTED: usize = 2;
/// That of rows of at least [`LONG_ROW`] elements, which take more time to sort.
const MAX_SELECTED_OF_LONG_ROW: usize = 4;
const LONG_ROW: i64 = 4096;

/// The elements of each row at each of some ranks, whole numbers in a last dimension like that of `rows`.
fn at_rank(rows: &Tensor, q: &Tensor, ranks: &Tensor) -> Result<Tensor> {
    let [made] = at_ranks(rows, q, [ranks.clone()])?;
    Ok(made)
}

/// [`at_rank`] for several tensors of ranks.
fn at_ranks<const COUNT: usize>(
    rows: &Tensor,
    q: &Tensor,
    ranks: [Tensor; COUNT],
) -> Result<[Tensor; COUNT]> {
    let (elements, indices) = match select(rows, q, &ranks)? {
        Some(selected) => selected,
        None => (rows.sort()?.0, ranks),
    };
    let mut made = indices;
    for index in &mut made {
        *index = elements.gather(-1, index)?;
    }
    Ok(made)
}

/// The elements of each row at all ranks that occur, and instead of the ranks indices of these, if it is faster to select them than to
/// sort the rows. Equal elements are those of a stable sort, so gradients are the same.
fn select<const COUNT: usize>(
    rows: &Tensor,
    q: &Tensor,
    ranks: &[Tensor; COUNT],
) -> Result<Option<(Tensor, [Tensor; COUNT])>> {
    let hidden = [DispatchKey::Batched, DispatchKey::Python];
    let is_readable = |t: &Tensor| t.device().is_cpu() && !hidden.iter().any(|key| t.key_set().has(*key));
    let count = q.numel() as usize;
    let n = rows.sizes().last().copied().unwrap_or(1);
    let limit = if n >= LONG_ROW { MAX_SELECTED_OF_LONG_ROW } else { MAX_SELECTED };
    if !is_readable(rows) || !is_readable(q) || count == 0 || count > limit {
        return Ok(None);
    }
    let mut of_row: [DimVec; COUNT] = std::array::from_fn(|_| DimVec::new());
    for (of_row, ranks) in of_row.iter_mut().zip(ranks) {
        let ranks = ranks.to_vec::<i64>()?;
        let (first, others) = ranks.split_at(count.min(ranks.len()));
        // NaN in some rows only.
        if others.chunks(count).any(|other| other != first) {
            return Ok(None);
        }
        of_row.extend_from_slice(first);
    }
    let mut distinct: DimVec = of_row.iter().flatten().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() > limit {
        return Ok(None);
    }
    let selected = |rank: &i64| Ok(ops::kthvalue(rows, rank + 1, -1, true)?.0);
    let elements = ops::cat(&fallible::try_collect(distinct.iter().map(selected))?, -1)?;
    let mut indices = ranks.clone();
    for (index, ranks) in indices.iter_mut().zip(of_row) {
        let position = |rank: &i64| distinct.partition_point(|other| other < rank) as i64;
        let positions = Tensor::from_vec(fallible::collect(ranks.iter().map(position))?, &[count as i64])?;
        *index = positions.expand(index.sizes())?;
    }
    Ok(Some((elements, indices)))
}

/// For each row and each of `q` the rank, which need not be an integer. In rows with NaN it is the last one, where NaN is sorted,
/// unless `only_numbers`, where NaN is ignored.
fn ranks(rows: &Tensor, q: &Tensor, only_numbers: bool) -> Result<Tensor> {
    let n = rows.sizes().last().copied().unwrap_or(1);
    let nan = rows.isnan()?;
    let mut sizes = DimVec::from_slice(rows.sizes());
    if let Some(last) = sizes.last_mut() {
        *last = q.numel();
    }
    let q = q.reshape(&[-1])?;
    if only_numbers {
        let counts = nan.logical_not()?.sum_with(SumOptions::new().dim(&[-1]).keepdim(true))?;
        return q.mul(&counts.sub_scalar(1)?.to(q.dtype())?)?.clamp_min(0);
    }
    let whole = q.mul_scalar(n - 1)?.expand(&sizes)?;
    whole.masked_fill(&nan.any_with(AnyOptions::new().dim(&[-1]).keepdim(true))?, n - 1)
}

macro_rules! quantiles {
    ($($name:literal $only_numbers:literal: $of_tensor:ident $of_number:ident;)*) => {$(
        /// The quantiles `q`, along a dimension or of all elements.
        pub fn $of_tensor(self_: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
            quantiles($name, self_, q, (dim, keepdim), interpolation, $only_numbers)
        }

        /// The quantile of one number `q`, along a dimension or of all elements.
        pub fn $of_number(self_: &Tensor, q: f64, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
            ensure!((0.0..=1.0).contains(&q), InvalidArgument($name, "q"), "q must be in the range [0, 1] but got {q}");
            let q = ops::full(&[], Scalar::Float(q), Some(self_.dtype()), None, Some(self_.device()), None)?;
            quantiles($name, self_, &q, (dim, keepdim), interpolation, $only_numbers)
        }
    )*};
}

quantiles! {
    "quantile" false: quantile quantile_scalar;
    "nanquantile" true: nanquantile nanquantile_scalar;
}
