//! Elements by rank along a dimension: medians, the k-th value, the most frequent, and extremes so far.
//!
//! A kernel sees a row as numbers that order like its elements, NaN greatest, and answers with places; so each is compiled
//! once for all types, and values are gathered.

use crate::native::guarded_slices::{fill, with_slices};
use crate::native::element_bits::{Numeric, Sortable, Stored};
use crate::native::factory::copy;
use crate::native::index::gather_scatter;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// From the orders of a row, and that of NaN if there is one, to places in it.
type Places<'a> = &'a (dyn Fn(&[u64], Option<u64>, &mut [i64]) + Sync);

/// For each row along `dim` the places that `find` gives: `k` of them, which stand along `dim`.
fn places(name: &str, self_: &Tensor, dim: i64, k: i64, find: Places<'_>) -> Result<Tensor> {
    let last = view::transpose(self_, dim, -1)?;
    let n = last.sizes().last().copied().unwrap_or(1) as usize;
    let mut sizes = DimVec::from_slice(last.sizes());
    if let Some(size) = sizes.last_mut() {
        *size = k;
    }
    let made = TensorSpec::like(self_, &sizes).with_dtype(ScalarType::I64).allocate(name)?;
    if made.numel() > 0 {
        let rows = copy::clone(&last, Some(MemoryFormat::Contiguous))?;
        dispatch_all_types!(ordered, self_.dtype(), name, T => {
            type N = <T as Stored>::Number;
            with_slices(name, &[&rows], &[&made], |s| {
                let (values, out) = (s.read::<N>(0)?, s.write::<i64>(0)?);
                let nan = N::HAS_NAN.then(|| N::of(Scalar::Float(f64::NAN)).order());
                let k = k as usize;
                fill(out, k, |range, part| {
                    let mut orders = scratch::with_capacity(n);
                    for (row, found) in (range.start / k..).zip(part.chunks_mut(k)) {
                        orders.clear();
                        orders.extend(values[row * n..(row + 1) * n].iter().map(|v| v.order()));
                        find(&orders, nan, found);
                    }
                });
                Ok(())
            })
        })?;
    }
    view::transpose(&made, dim, -1)
}

/// The size of a dimension, of which a tensor without dimensions has one.
fn length(name: &str, self_: &Tensor, dim: i64) -> Result<i64> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context(name))?;
    Ok(self_.sizes().get(d).copied().unwrap_or(1))
}

fn reduced_meta(name: &str, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
    let n = length(name, self_, dim)?;
    ensure!(n > 0, Index, "{name}: Expected reduction dim {dim} to have non-zero size.");
    let d = shape::wrap_dim(dim, self_.dim())?;
    let mut sizes = DimVec::from_slice(self_.sizes());
    if let Some(size) = sizes.get_mut(d) {
        *size = 1;
        if !keepdim {
            sizes.remove(d);
        }
    }
    let values = TensorSpec::like(self_, &sizes);
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

/// Fills values and indices of a reduction that picks one place of each row.
fn reduced(
    name: &str,
    self_: &Tensor,
    dim: i64,
    (values, indices): (&Tensor, &Tensor),
    find: &(dyn Fn(&[u64], Option<u64>) -> usize + Sync),
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let found = places(name, self_, dim, 1, &|row, nan, out| out[0] = find(row, nan) as i64)?;
    picked(self_, dim, &found, (values, indices))
}

fn picked(self_: &Tensor, dim: i64, found: &Tensor, (values, indices): (&Tensor, &Tensor)) -> Result<()> {
    let chosen = TensorSpec::like(self_, found.sizes()).allocate("gather")?;
    gather_scatter::gather(self_, dim, found, false, &chosen)?;
    copy::copy_(values, &view::view(&chosen, values.sizes())?, false)?;
    let dense = copy::clone(found, Some(MemoryFormat::Contiguous))?;
    copy::copy_(indices, &view::view(&dense, indices.sizes())?, false)
}

/// The place of the element of rank `k`, of equal ones the first.
fn ranked(row: &[u64], k: usize) -> usize {
    let mut items: Vec<(u64, usize)> = scratch::collect(row.iter().copied().zip(0..));
    items.select_nth_unstable(k).1.1
}

/// Shapes and types of [`kthvalue`].
pub fn kthvalue_meta(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
    let specs = reduced_meta("kthvalue", self_, dim, keepdim)?;
    let n = length("kthvalue", self_, dim)?;
    ensure!(
        (1..=n).contains(&k),
        InvalidArgument,
        "kthvalue: selected number k out of range for dimension {dim}"
    );
    Ok(specs)
}

/// The `k`-th least element along a dimension, and where it stands.
pub fn kthvalue(self_: &Tensor, k: i64, dim: i64, _: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
    reduced("kthvalue", self_, dim, (values, indices), &|row, _| ranked(row, k as usize - 1))
}

/// The lower of the two elements in the middle; a row with NaN gives its first.
fn middle(row: &[u64], nan: Option<u64>) -> usize {
    let first_nan = nan.and_then(|nan| row.iter().position(|order| *order == nan));
    first_nan.unwrap_or_else(|| ranked(row, (row.len() - 1) / 2))
}

/// The same of the elements that are numbers; the first NaN where none is.
fn middle_of_numbers(row: &[u64], nan: Option<u64>) -> usize {
    let count = row.iter().filter(|order| Some(**order) != nan).count();
    ranked(row, count.saturating_sub(1) / 2)
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:literal: $kernel:ident $meta:ident = $find:expr;)*) => {$(
        #[doc = concat!("Shapes and types of [`", stringify!($kernel), "`].")]
        pub fn $meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
            reduced_meta($name, self_, dim, keepdim)
        }

        $(#[$doc])*
        pub fn $kernel(self_: &Tensor, dim: i64, _: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
            reduced($name, self_, dim, (values, indices), &$find)
        }
    )*};
}

reductions! {
    /// The lower median along a dimension, and where it stands; NaN where there is one.
    "median": median_dim median_dim_meta = middle;
    /// The lower median of the numbers along a dimension, and where it stands.
    "nanmedian": nanmedian_dim nanmedian_dim_meta = middle_of_numbers;
    /// The most frequent element along a dimension, of several the least, and its last place.
    "mode": mode mode_meta = most_frequent;
}

/// Each NaN is a value of its own.
fn most_frequent(row: &[u64], nan: Option<u64>) -> usize {
    let mut items: Vec<(u64, usize)> = scratch::collect(row.iter().copied().zip(0..));
    items.sort_unstable();
    let mut best = (0, 0);
    for run in items.chunk_by(|a, b| a.0 == b.0 && Some(a.0) != nan) {
        if let Some((_, place)) = run.last().filter(|_| run.len() > best.0) {
            best = (run.len(), *place);
        }
    }
    best.1
}

fn of_all(
    name: &str,
    self_: &Tensor,
    find: &(dyn Fn(&[u64], Option<u64>) -> usize + Sync),
) -> Result<Tensor> {
    let made = TensorSpec::like(self_, &[]).allocate(name)?;
    if self_.numel() == 0 {
        ensure!(
            self_.dtype().is_floating_point(),
            Index,
            "{name}: expected at least one element of {}",
            self_.dtype()
        );
        copy::fill_(&made, Scalar::Float(f64::NAN))?;
    } else if !made.device().is_meta() {
        let flat = view::reshape(self_, &[-1])?;
        let place = TensorSpec::like(self_, &[]).with_dtype(ScalarType::I64).allocate(name)?;
        reduced(name, &flat, 0, (&made, &place), find)?;
    }
    Ok(made)
}

/// The lower median of all elements.
pub fn median(self_: &Tensor) -> Result<Tensor> {
    of_all("median", self_, &middle)
}

/// The lower median of all numbers.
pub fn nanmedian(self_: &Tensor) -> Result<Tensor> {
    of_all("nanmedian", self_, &middle_of_numbers)
}

fn so_far_meta(name: &str, self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    length(name, self_, dim)?;
    let values = TensorSpec::like(self_, self_.sizes());
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

fn so_far(
    name: &str,
    self_: &Tensor,
    dim: i64,
    (values, indices): (&Tensor, &Tensor),
    replaces: &(dyn Fn(u64, u64) -> bool + Sync),
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let n = length(name, self_, dim)?;
    let found = places(name, self_, dim, n, &|row, nan, out| {
        let mut best = 0;
        for (place, order) in row.iter().enumerate() {
            let (is_nan, was_nan) = (Some(*order) == nan, Some(row[best]) == nan);
            if is_nan || (!was_nan && replaces(*order, row[best])) {
                best = place;
            }
            out[place] = best as i64;
        }
    })?;
    picked(self_, dim, &found, (values, indices))
}

/// Shapes and types of [`cummax`].
pub fn cummax_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    so_far_meta("cummax", self_, dim)
}

/// The greatest up to each element of a dimension, and the last place where it stood; from the first NaN on, NaN.
pub fn cummax(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    so_far("cummax", self_, dim, (values, indices), &|new, old| new >= old)
}

/// Shapes and types of [`cummin`].
pub fn cummin_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    so_far_meta("cummin", self_, dim)
}

/// The least up to each element of a dimension, and the last place where it stood; from the first NaN on, NaN.
pub fn cummin(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    so_far("cummin", self_, dim, (values, indices), &|new, old| new <= old)
}

/// What stands between two ranks.
fn between(below: &Tensor, above: &Tensor, rank: &Tensor, interpolation: &str) -> Result<Tensor> {
    let fraction = match interpolation {
        "midpoint" => return below.lerp_scalar(above, 0.5),
        _ => rank.sub(&rank.floor()?)?,
    };
    below.lerp(above, &fraction)
}

/// The elements of each row at the places `q` of the way from the least to the greatest.
fn quantiles(
    name: &str,
    self_: &Tensor,
    q: &Tensor,
    (dim, keepdim): (Option<i64>, bool),
    interpolation: &str,
    only_numbers: bool,
) -> Result<Tensor> {
    ensure!(self_.numel() > 0, Shape, "{name}: input tensor must be non-empty");
    ensure!(q.dim() <= 1, Shape, "{name}: q must be a scalar or 1D tensor");
    let wide = matches!(self_.dtype(), ScalarType::F32 | ScalarType::F64);
    ensure!(wide, Dtype, "{name}: input tensor must be either float or double dtype");
    ensure!(self_.dtype() == q.dtype(), Dtype, "{name}: q tensor must be same dtype as the input tensor");
    let known = ["linear", "lower", "higher", "midpoint", "nearest"].contains(&interpolation);
    ensure!(
        known,
        InvalidArgument,
        "{name}: interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
    );
    if !q.device().is_meta() {
        let inside = q.ge_scalar(0)?.logical_and(&q.le_scalar(1)?)?.all()?;
        ensure!(
            inside.item_scalar()?.to_bool(),
            InvalidArgument,
            "{name}: q values must be in the range [0, 1]"
        );
    }
    let d = shape::wrap_dim(dim.unwrap_or(0), self_.dim()).map_err(|e| e.context(name))?;
    let rows = match dim {
        Some(dim) if self_.dim() > 0 => self_.movedim_int(dim, -1)?,
        _ => self_.reshape(&[-1])?,
    };
    let sorted = rows.sort(-1, false)?.0;
    let ranks = ranks(&sorted, q, only_numbers)?;
    let at = |rank: &Tensor| sorted.gather(-1, &rank.to(ScalarType::I64)?);
    let made = match interpolation {
        "lower" => at(&ranks.floor()?)?,
        "higher" => at(&ranks.ceil()?)?,
        "nearest" => at(&ranks.round()?)?,
        _ => between(&at(&ranks.floor()?)?, &at(&ranks.ceil()?)?, &ranks, interpolation)?,
    };
    // The quantiles stand in the last dimension; those of a list come first.
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
    made.movedim_int(-1, 0)?.reshape(&sizes)
}

/// For each row and each of `q` the rank, which may lie between two: rows with NaN, sorted last, give that, unless only
/// numbers count.
fn ranks(sorted: &Tensor, q: &Tensor, only_numbers: bool) -> Result<Tensor> {
    let n = sorted.sizes().last().copied().unwrap_or(1);
    let nan = sorted.isnan()?;
    let mut sizes = DimVec::from_slice(sorted.sizes());
    if let Some(last) = sizes.last_mut() {
        *last = q.numel();
    }
    let q = q.reshape(&[-1])?;
    if only_numbers {
        let counts = nan.logical_not()?.sum_dim_intlist(Some(&[-1]), true)?;
        return q.mul(&counts.sub_scalar(1, 1)?.to(q.dtype())?)?.clamp_min(0);
    }
    let whole = q.mul_scalar(n - 1)?.expand(&sizes)?;
    whole.masked_fill(&nan.any_dim(-1, true)?, n - 1)
}

macro_rules! quantiles {
    ($($name:literal $only_numbers:literal: $of_tensor:ident $of_number:ident;)*) => {$(
        /// The quantiles `q`, along a dimension or of all elements.
        pub fn $of_tensor(self_: &Tensor, q: &Tensor, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
            quantiles($name, self_, q, (dim, keepdim), interpolation, $only_numbers)
        }

        /// The same of one number.
        pub fn $of_number(self_: &Tensor, q: f64, dim: Option<i64>, keepdim: bool, interpolation: &str) -> Result<Tensor> {
            ensure!((0.0..=1.0).contains(&q), InvalidArgument, "{}: q must be in the range [0, 1] but got {q}", $name);
            let q = ops::full(&[], Scalar::Float(q), Some(self_.dtype()), None, Some(self_.device()), None)?;
            quantiles($name, self_, &q, (dim, keepdim), interpolation, $only_numbers)
        }
    )*};
}

quantiles! {
    "quantile" false: quantile quantile_scalar;
    "nanquantile" true: nanquantile nanquantile_scalar;
}

/// The mean of the elements that are not NaN.
pub fn nanmean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    if !self_.dtype().is_floating_point() {
        bail!(Dtype, "nanmean: expected input to have floating point dtype but got {}", self_.dtype());
    }
    let count = self_.isnan()?.logical_not()?.sum_dim_intlist(dim, keepdim)?;
    ops::nansum(self_, dim, keepdim, dtype)?.div(&count)
}
