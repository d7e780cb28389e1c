//! `median`, `nanmedian`, `mode` and `kthvalue`.
//!
//! A kernel finds the index of an element in each row. Equal elements are told apart by their indices, so results do not depend on how
//! it is found.

mod rank;
mod short_rows;

use crate::native::element_bits::{ElementBits, Numeric, RawBits, Sortable};
use crate::native::factory::copy;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::shape::view;
use crate::native::short_rows::MAX_SHORT_LEN;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, ensure, shape};
use rank::{Keyed, collect_items, index_of_rank};
use short_rows::find_in_short_rows;

/// Which element of a row is selected.
#[derive(Clone, Copy)]
enum Selected {
    /// That of a rank.
    Rank(usize),
    /// The first NaN, or else the lower median.
    Median,
    /// The lower median of the elements that are not NaN; the first NaN if all are.
    MedianOfNumbers,
    /// The most frequent one, the smallest if there are several; of equal ones the last.
    Mode,
}

impl Selected {
    /// The index of the element in a row, which is not empty. `items` is scratch memory.
    #[inline(always)]
    fn find<N: Sortable>(self, row: &[N], nan: Option<u64>, items: &mut Vec<Keyed>) -> usize {
        let is_nan = |value: &N| N::HAS_NAN && Some(value.sort_key()) == nan;
        match self {
            Selected::Rank(k) => index_of_rank(row, k, items),
            Selected::Median if let Some(index) = row.iter().position(is_nan) => index,
            Selected::Median => index_of_rank(row, (row.len() - 1) / 2, items),
            Selected::MedianOfNumbers => {
                let count = row.len() - row.iter().filter(|value| is_nan(value)).count();
                index_of_rank(row, count.saturating_sub(1) / 2, items)
            }
            Selected::Mode => {
                collect_items(row, items);
                mode_of_items(items, nan)
            }
        }
    }
}

/// The index of the selected element of each row of `n` elements of a dense tensor.
fn find_in_rows(name: &str, rows: &Tensor, n: usize, selected: Selected, found: &Tensor) -> Result<()> {
    dispatch_all_types!(ordered, rows.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[rows], &[found], |s| {
            let (values, out) = (s.read::<N>(0)?, s.write::<i64>(0)?);
            let nan = N::HAS_NAN.then(|| N::of(Scalar::Float(f64::NAN)).sort_key());
            fill(out, 1, |range, part| {
                if n <= MAX_SHORT_LEN {
                    let values = &values[range.start * n..range.end * n];
                    return find_in_short_rows(values, (n, nan), selected, part);
                }
                let mut items = Vec::new();
                for (row, index) in range.zip(part) {
                    *index = selected.find(&values[row * n..(row + 1) * n], nan, &mut items) as i64;
                }
            });
            Ok(())
        })
    })
}

/// The elements of each row of `n` elements of a dense tensor at the index `found`.
fn take_from_rows(name: &str, rows: &Tensor, n: usize, found: &Tensor, taken: &Tensor) -> Result<()> {
    dispatch_all_types!(ordered, rows.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[rows, found], &[taken], |s| {
            let (values, found, out) = (s.read::<N>(0)?, s.read::<i64>(1)?, s.write::<N>(0)?);
            fill(out, 1, |range, part| {
                for (row, to) in range.zip(part) {
                    *to = values[row * n + found[row] as usize].normalized();
                }
            });
            Ok(())
        })
    })
}

/// The tensor with dimension `dim` moved to the end, dense.
fn rows_along(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let d = shape::wrap_dim(dim, self_.dim())?;
    let others = (0..self_.dim() as i64).filter(|other| *other != d as i64);
    let order: DimVec = others.chain((self_.dim() > 0).then_some(d as i64)).collect();
    let rows = view::permute(self_, &order)?;
    if rows.is_contiguous() { Ok(rows) } else { copy::clone(&rows, Some(MemoryFormat::Contiguous)) }
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
    selected: Selected,
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let n = length(name, self_, dim)? as usize;
    let rows = rows_along(self_, dim)?;
    // The results may share memory with `self_`.
    let taken = TensorSpec::like(self_, &[values.numel()]).allocate(name)?;
    let found = TensorSpec::like(self_, &[values.numel()]).with_dtype(ScalarType::I64).allocate(name)?;
    find_in_rows(name, &rows, n, selected, &found)?;
    take_from_rows(name, &rows, n, &found, &taken)?;
    copy::copy_(values, &view::view(&taken, values.sizes())?, false)?;
    copy::copy_(indices, &view::view(&found, indices.sizes())?, false)
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
    reduced("kthvalue", self_, dim, (values, indices), Selected::Rank(k as usize - 1))
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:literal: $kernel:ident $meta:ident = $selected:expr;)*) => {$(
        #[doc = concat!("Shapes and types of [`", stringify!($kernel), "`].")]
        pub fn $meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
            reduced_meta($name, self_, dim, keepdim)
        }

        $(#[$doc])*
        pub fn $kernel(self_: &Tensor, dim: i64, _: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
            reduced($name, self_, dim, (values, indices), $selected)
        }
    )*};
}

reductions! {
    /// The lower median along a dimension, and its index; NaN if there is one.
    "median": median_dim median_dim_meta = Selected::Median;
    /// The lower median along a dimension of the elements that are not NaN, and its index.
    "nanmedian": nanmedian_dim nanmedian_dim_meta = Selected::MedianOfNumbers;
    /// The most frequent element along a dimension, the smallest if there are several, and its last index.
    "mode": mode mode_meta = Selected::Mode;
}

/// The last index of the most frequent element. Each NaN is a value of its own.
fn mode_of_items(items: &mut [Keyed], nan: Option<u64>) -> usize {
    items.sort_unstable();
    let mut best = (0, 0);
    for run in items.chunk_by(|a, b| a.0 == b.0 && Some(a.0) != nan) {
        if let Some((_, index)) = run.last().filter(|_| run.len() > best.0) {
            best = (run.len(), *index);
        }
    }
    best.1
}

fn of_all(name: &str, self_: &Tensor, selected: Selected) -> Result<Tensor> {
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
        reduced(name, &flat, 0, (&made, &index), selected)?;
    }
    Ok(made)
}

/// The lower median of all elements.
pub fn median(self_: &Tensor) -> Result<Tensor> {
    of_all("median", self_, Selected::Median)
}

/// The lower median of all elements that are not NaN.
pub fn nanmedian(self_: &Tensor) -> Result<Tensor> {
    of_all("nanmedian", self_, Selected::MedianOfNumbers)
}
