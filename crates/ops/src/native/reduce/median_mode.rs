//! `median`, `nanmedian`, `mode` and `kthvalue`.
//!
//! A kernel gets the sort keys of a row, and returns indices, at which the values are gathered. So it is compiled once for all types.

use crate::native::element_bits::{ElementBits, Numeric, Sortable};
use crate::native::factory::copy;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::gather_scatter;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, scratch};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, ensure, shape};

/// Takes the sort keys of a row, and that of NaN if the type has it, and writes indices of the row.
pub(super) type FindIndices<'a> = &'a (dyn Fn(&[u64], Option<u64>, &mut [i64]) + Sync);

/// For each row along `dim` the `k` indices that `find` writes, along `dim`.
pub(super) fn find_indices(
    name: &str,
    self_: &Tensor,
    dim: i64,
    k: i64,
    find: FindIndices<'_>,
) -> Result<Tensor> {
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
            type N = <T as ElementBits>::Number;
            with_slices(name, &[&rows], &[&made], |s| {
                let (values, out) = (s.read::<N>(0)?, s.write::<i64>(0)?);
                let nan = N::HAS_NAN.then(|| N::of(Scalar::Float(f64::NAN)).sort_key());
                let k = k as usize;
                fill(out, k, |range, part| {
                    let mut keys = scratch::with_capacity(n);
                    for (row, found) in (range.start / k..).zip(part.chunks_mut(k)) {
                        keys.clear();
                        keys.extend(values[row * n..(row + 1) * n].iter().map(|v| v.sort_key()));
                        find(&keys, nan, found);
                    }
                });
                Ok(())
            })
        })?;
    }
    view::transpose(&made, dim, -1)
}

/// The size of a dimension; 1 for a tensor without dimensions.
pub(super) fn length(name: &str, self_: &Tensor, dim: i64) -> Result<i64> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    Ok(self_.sizes().get(d).copied().unwrap_or(1))
}

fn reduced_meta(name: &str, self_: &Tensor, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
    let n = length(name, self_, dim)?;
    ensure!(n > 0, Index(name, "dim"), "Expected reduction dim {dim} to have non-zero size.");
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

/// Fills the values and indices of a reduction that selects one element of each row.
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
    let found = find_indices(name, self_, dim, 1, &|row, nan, out| out[0] = find(row, nan) as i64)?;
    store_selected(self_, dim, &found, (values, indices))
}

/// Writes the indices `found`, and the elements of `self_` there.
pub(super) fn store_selected(
    self_: &Tensor,
    dim: i64,
    found: &Tensor,
    (values, indices): (&Tensor, &Tensor),
) -> Result<()> {
    let chosen = TensorSpec::like(self_, found.sizes()).allocate("gather")?;
    gather_scatter::gather(self_, dim, found, false, &chosen)?;
    copy::copy_(values, &view::view(&chosen, values.sizes())?, false)?;
    let dense = copy::clone(found, Some(MemoryFormat::Contiguous))?;
    copy::copy_(indices, &view::view(&dense, indices.sizes())?, false)
}

/// The index of the element of rank `k`; equal elements are ranked by index.
fn index_of_rank(row: &[u64], k: usize) -> usize {
    let mut items: Vec<(u64, usize)> = scratch::collect(row.iter().copied().zip(0..));
    items.select_nth_unstable(k).1.1
}

/// Shapes and types of [`kthvalue`].
pub fn kthvalue_meta(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
    let specs = reduced_meta("kthvalue", self_, dim, keepdim)?;
    let n = length("kthvalue", self_, dim)?;
    ensure!(
        (1..=n).contains(&k),
        InvalidArgument("kthvalue", "k"),
        "selected number k out of range for dimension {dim}"
    );
    Ok(specs)
}

/// The `k`-th smallest element along a dimension, and its index.
pub fn kthvalue(self_: &Tensor, k: i64, dim: i64, _: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
    reduced("kthvalue", self_, dim, (values, indices), &|row, _| index_of_rank(row, k as usize - 1))
}

/// The index of the lower median, or of the first NaN.
fn median_index(row: &[u64], nan: Option<u64>) -> usize {
    let first_nan = nan.and_then(|nan| row.iter().position(|key| *key == nan));
    first_nan.unwrap_or_else(|| index_of_rank(row, (row.len() - 1) / 2))
}

/// The index of the lower median of the elements that are not NaN; of the first NaN if all are.
fn nanmedian_index(row: &[u64], nan: Option<u64>) -> usize {
    let count = row.iter().filter(|key| Some(**key) != nan).count();
    index_of_rank(row, count.saturating_sub(1) / 2)
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
    /// The lower median along a dimension, and its index; NaN if there is one.
    "median": median_dim median_dim_meta = median_index;
    /// The lower median along a dimension of the elements that are not NaN, and its index.
    "nanmedian": nanmedian_dim nanmedian_dim_meta = nanmedian_index;
    /// The most frequent element along a dimension, the smallest if there are several, and its last index.
    "mode": mode mode_meta = mode_index;
}

/// The last index of the most frequent element. Each NaN is a value of its own.
fn mode_index(row: &[u64], nan: Option<u64>) -> usize {
    let mut items: Vec<(u64, usize)> = scratch::collect(row.iter().copied().zip(0..));
    items.sort_unstable();
    let mut best = (0, 0);
    for run in items.chunk_by(|a, b| a.0 == b.0 && Some(a.0) != nan) {
        if let Some((_, index)) = run.last().filter(|_| run.len() > best.0) {
            best = (run.len(), *index);
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
            Index(name, "self"),
            "expected at least one element of {}",
            self_.dtype()
        );
        copy::fill_(&made, Scalar::Float(f64::NAN))?;
    } else if !made.device().is_meta() {
        let flat = view::reshape(self_, &[-1])?;
        let index = TensorSpec::like(self_, &[]).with_dtype(ScalarType::I64).allocate(name)?;
        reduced(name, &flat, 0, (&made, &index), find)?;
    }
    Ok(made)
}

/// The lower median of all elements.
pub fn median(self_: &Tensor) -> Result<Tensor> {
    of_all("median", self_, &median_index)
}

/// The lower median of all elements that are not NaN.
pub fn nanmedian(self_: &Tensor) -> Result<Tensor> {
    of_all("nanmedian", self_, &nanmedian_index)
}
