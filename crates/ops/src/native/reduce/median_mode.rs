//! `median`, `nanmedian`, `mode` and `kthvalue`.
//!
//! A kernel finds the index of an element in each row. Equal elements are told apart by their indices, so results do not depend on how
//! it is found.

mod rank;
mod short_rows;

use crate::native::element_bits::{ElementBits, Numeric, Sortable};
use crate::native::factory::copy;
use crate::native::guarded_slices::{fill_both, with_slices};
use crate::native::shape::view;
use crate::native::short_rows::MAX_SHORT_LEN;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, Storage, ensure, shape};
use rank::{Keyed, Memory, collect_items, index_of_rank};
use short_rows::{find_in_short_columns, find_in_short_rows};

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
    /// The index of the element in a row, which is not empty.
    #[inline(always)]
    fn find<N: Sortable>(self, row: &[N], nan: Option<u64>, memory: &mut Memory) -> usize {
        match self {
            Selected::Rank(k) => index_of_rank(row, k, memory),
            Selected::Median if let Some(index) = first_nan(row) => index,
            Selected::Median => index_of_rank(row, (row.len() - 1) / 2, memory),
            Selected::MedianOfNumbers => {
                let count = row.len() - row.iter().filter(|value| is_nan(*value)).count();
                index_of_rank(row, count.saturating_sub(1) / 2, memory)
            }
            Selected::Mode => {
                collect_items(row, &mut memory.items);
                mode_of_items(&mut memory.items, nan)
            }
        }
    }
}

/// Whether it is NaN, which differs from everything.
#[inline(always)]
fn is_nan<N: Sortable>(value: &N) -> bool {
    value.differs_from(*value)
}

/// The index of the first NaN. Blocks are compared at a time, without a branch for each element.
#[inline(always)]
fn first_nan<N: Sortable>(row: &[N]) -> Option<usize> {
    const BLOCK: usize = 64;
    if !N::HAS_NAN {
        return None;
    }
    let has_nan = |block: &[N]| block.iter().fold(false, |any, value| any | is_nan(value));
    let block = row.chunks(BLOCK).position(has_nan)?;
    let first = block * BLOCK;
    row[first..].iter().position(is_nan).map(|index| first + index)
}

/// The selected element of each column of dense blocks of `n` by `width` elements, and its index.
fn select(
    name: &str,
    dense: &Tensor,
    (n, width): (usize, usize),
    (values, indices): (&Tensor, &Tensor),
    selected: Selected,
) -> Result<()> {
    dispatch_all_types!(ordered, dense.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[dense], &[values, indices], |s| {
            let (elements, values, indices) = (s.read::<N>(0)?, s.write::<N>(0)?, s.write::<i64>(1)?);
            let nan = N::HAS_NAN.then(|| N::of(Scalar::Float(f64::NAN)).sort_key());
            fill_both((values, indices), 1, |range, values, indices| {
                if width > 1 {
                    find_in_short_columns(elements, (n, width, nan), range.clone(), selected, indices);
                } else if n <= MAX_SHORT_LEN {
                    let rows = &elements[range.start * n..range.end * n];
                    find_in_short_rows(rows, (n, nan), selected, indices);
                } else {
                    let mut memory = Memory::default();
                    for (row, index) in range.clone().zip(&mut *indices) {
                        *index = selected.find(&elements[row * n..(row + 1) * n], nan, &mut memory) as i64;
                    }
                }
                take(elements, (n, width), range.start, indices, values);
            });
            Ok(())
        })
    })
}

/// The elements of columns from number `first` on at the indices `found`.
fn take<N: Numeric>(
    elements: &[N],
    (n, width): (usize, usize),
    first: usize,
    found: &[i64],
    taken: &mut [N],
) {
    let (mut block, mut column) = (first / width, first % width);
    for (to, index) in taken.iter_mut().zip(found) {
        *to = elements[(block * n + *index as usize) * width + column].normalized();
        column += 1;
        if column == width {
            (block, column) = (block + 1, 0);
        }
    }
}

/// Columns from which on short ones are read where they are, as vectors; fewer are moved to rows.
const MIN_COLUMNS: usize = 8;

/// Dense memory with the elements along a dimension of size `n`, and how many elements one is from the next there.
fn columns_along(self_: &Tensor, dim: i64, n: usize) -> Result<(Tensor, usize)> {
    let d = shape::wrap_dim(dim, self_.dim())?;
    let width = shape::product(self_.sizes().get(d + 1..).unwrap_or_default()) as usize;
    if n <= MAX_SHORT_LEN && width >= MIN_COLUMNS && self_.is_contiguous() {
        return Ok((self_.clone(), width));
    }
    Ok((rows_along(self_, dim)?, 1))
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
    let (dense, width) = columns_along(self_, dim, n)?;
    let is_own = |t: &Tensor| t.is_contiguous() && !Storage::ptr_eq(t.storage(), dense.storage());
    if is_own(values) && is_own(indices) && !Storage::ptr_eq(values.storage(), indices.storage()) {
        return select(name, &dense, (n, width), (values, indices), selected);
    }
    let taken = TensorSpec::like(self_, &[values.numel()]).allocate(name)?;
    let found = TensorSpec::like(self_, &[values.numel()]).with_dtype(ScalarType::I64).allocate(name)?;
    select(name, &dense, (n, width), (&taken, &found), selected)?;
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
