//! `cummax` and `cummin`: the maximum or minimum of the elements up to each one of a dimension.

use super::median_mode::length;
use crate::native::element_bits::{ElementBits, Numeric, Sortable};
use crate::native::guarded_slices::{fill_both, with_slices};
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, Storage, shape};

fn cumulative_meta(name: &str, self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    length(name, self_, dim)?;
    let values = TensorSpec::like(self_, self_.sizes());
    Ok((values.clone(), values.with_dtype(ScalarType::I64)))
}

/// Elements whose ranks are computed together.
const RANKS: usize = 512;
/// Elements of a long row whose best one is compared first.
const GROUP: usize = 16;
/// From how many elements on a row is long; at most [`RANKS`].
const LONG: usize = 128;

/// Columns in lanes: of most strips, of those at the end, and of blocks of few columns.
const WIDE: usize = 32;
const NARROW: usize = 8;
const FEW: usize = 4;

/// Which of two elements is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Largest,
    Smallest,
}

/// The order of elements.
#[derive(Clone, Copy)]
struct Ranker {
    best: Best,
    /// The sort key of NaN.
    nan: u64,
}

impl Ranker {
    /// A number that is at least as large for an element that is at least as good; NaN is best.
    #[inline(always)]
    fn rank<N: Sortable>(self, element: N) -> u64 {
        let key = element.sort_key();
        match self.best {
            Best::Largest => key,
            Best::Smallest if N::HAS_NAN && key == self.nan => u64::MAX,
            Best::Smallest => !key,
        }
    }
}

/// The best element up to each one of a dimension, and its index, the last of equals.
fn cumulative(
    name: &str,
    self_: &Tensor,
    dim: i64,
    (values, indices): (&Tensor, &Tensor),
    best: Best,
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let rows = length(name, self_, dim)? as usize;
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    let width = shape::product(self_.sizes().get(d + 1..).unwrap_or_default()) as usize;
    let dense = ops::contiguous(self_, MemoryFormat::Contiguous)?;
    let is_own = |t: &Tensor| t.is_contiguous() && !Storage::ptr_eq(t.storage(), dense.storage());
    if is_own(values) && is_own(indices) && !Storage::ptr_eq(values.storage(), indices.storage()) {
        return fill_cumulative(name, &dense, (rows, width), (values, indices), best);
    }
    let chosen = TensorSpec::like(&dense, dense.sizes()).allocate(name)?;
    let found = TensorSpec::like(&dense, dense.sizes()).with_dtype(ScalarType::I64).allocate(name)?;
    fill_cumulative(name, &dense, (rows, width), (&chosen, &found), best)?;
    ops::copy_(values, &chosen, false)?;
    ops::copy_(indices, &found, false).map(drop)
}

/// [`cumulative`] of blocks of `rows` and `width` elements that follow one another; so do those of the results.
fn fill_cumulative(
    name: &str,
    dense: &Tensor,
    (rows, width): (usize, usize),
    (values, indices): (&Tensor, &Tensor),
    best: Best,
) -> Result<()> {
    let block = rows * width;
    dispatch_all_types!(ordered, dense.dtype(), name, T => {
        type N = <T as ElementBits>::Number;
        with_slices(name, &[dense], &[values, indices], |s| {
            let (elements, values, indices) = (s.read::<N>(0)?, s.write::<N>(0)?, s.write::<i64>(1)?);
            let ranker = Ranker { best, nan: N::of(Scalar::Float(f64::NAN)).sort_key() };
            fill_both((values, indices), block, |range, values, indices| {
                let elements = &elements[range];
                with_processor_vectors(
                    #[inline(always)]
                    || best_of_blocks(elements, (values, indices), (rows, width), ranker),
                );
            });
            Ok(())
        })
    })
}

/// The best element up to each one of a column, and its index, in blocks that follow one another.
#[inline(always)]
fn best_of_blocks<N: Sortable>(
    elements: &[N],
    (values, found): (&mut [N], &mut [i64]),
    (rows, width): (usize, usize),
    ranker: Ranker,
) {
    if width == 1 {
        return best_of_rows(elements, (values, found), rows, ranker);
    }
    let block = rows * width;
    let targets = values.chunks_exact_mut(block).zip(found.chunks_exact_mut(block));
    for (elements, (values, found)) in elements.chunks_exact(block).zip(targets) {
        best_of_columns(elements, (values, found), width, ranker);
    }
}

/// The best element of a row so far, its index, and the index of the next one.
struct Running<N> {
    rank: u64,
    at: i64,
    value: N,
    next: i64,
}

impl<N: Sortable> Running<N> {
    /// Before the first element, which is at least as good.
    #[inline(always)]
    fn before(first: N) -> Self {
        Running { rank: 0, at: 0, value: first, next: 0 }
    }

    /// The results of the next elements, of these ranks. Most groups of a long row have no element that is as good as one before, so that
    /// their results are the same.
    #[inline(always)]
    fn extend(&mut self, ranks: &[u64], elements: &[N], values: &mut [N], found: &mut [i64]) {
        let whole = ranks.len() - ranks.len() % GROUP;
        for first in (0..whole).step_by(GROUP) {
            let group = first..first + GROUP;
            let (ranks, values, found) =
                (&ranks[group.clone()], &mut values[group.clone()], &mut found[group.clone()]);
            if ranks.iter().fold(0, |best, rank| best.max(*rank)) < self.rank {
                values.fill(self.value);
                found.fill(self.at);
                self.next += GROUP as i64;
            } else {
                self.extend_one_by_one(ranks, &elements[group], values, found);
            }
        }
        self.extend_one_by_one(
            &ranks[whole..],
            &elements[whole..],
            &mut values[whole..],
            &mut found[whole..],
        );
    }

    /// [`extend`](Self::extend) without a branch on the elements, which would not be predictable where they are few.
    #[inline(always)]
    fn extend_one_by_one(&mut self, ranks: &[u64], elements: &[N], values: &mut [N], found: &mut [i64]) {
        for ((rank, element), (to, index)) in ranks.iter().zip(elements).zip(values.iter_mut().zip(found)) {
            let is_best = *rank >= self.rank;
            self.rank = self.rank.max(*rank);
            self.at = if is_best { self.next } else { self.at };
            self.value = if is_best { element.normalized() } else { self.value };
            self.next += 1;
            (*to, *index) = (self.value, self.at);
        }
    }
}

/// Computes the ranks of elements.
#[inline(always)]
fn rank_all<'r, N: Sortable>(elements: &[N], ranks: &'r mut [u64; RANKS], ranker: Ranker) -> &'r [u64] {
    for (rank, element) in ranks.iter_mut().zip(elements) {
        *rank = ranker.rank(*element);
    }
    &ranks[..elements.len()]
}

/// The best element up to each one, and its index, in rows of `n` elements that follow one another. The ranks of many elements are computed
/// together, of whatever rows they are.
#[inline(always)]
fn best_of_rows<N: Sortable>(
    elements: &[N],
    (values, found): (&mut [N], &mut [i64]),
    n: usize,
    ranker: Ranker,
) {
    let (mut ranks, is_long) = ([0; RANKS], n >= LONG);
    let whole = if is_long { n } else { RANKS / n * n };
    let targets = values.chunks_mut(whole).zip(found.chunks_mut(whole));
    for (elements, (values, found)) in elements.chunks(whole).zip(targets) {
        if is_long {
            let mut row = Running::before(elements[0]);
            let targets = values.chunks_mut(RANKS).zip(found.chunks_mut(RANKS));
            for (elements, (values, found)) in elements.chunks(RANKS).zip(targets) {
                row.extend(rank_all(elements, &mut ranks, ranker), elements, values, found);
            }
            continue;
        }
        let ranks = rank_all(elements, &mut ranks, ranker).chunks_exact(n);
        let targets = values.chunks_exact_mut(n).zip(found.chunks_exact_mut(n));
        for ((ranks, elements), (values, found)) in ranks.zip(elements.chunks_exact(n)).zip(targets) {
            Running::before(elements[0]).extend_one_by_one(ranks, elements, values, found);
        }
    }
}

/// The best element up to each one, and its index, in each of `width` columns: strips of columns in lanes. The last strips reach back over
/// columns that have been computed, rather than be narrow.
#[inline(always)]
fn best_of_columns<N: Sortable>(
    elements: &[N],
    (values, found): (&mut [N], &mut [i64]),
    width: usize,
    ranker: Ranker,
) {
    let mut first = 0;
    while first < width {
        let left = width - first;
        first += match (left, width) {
            (WIDE.., _) => best_of_strip::<N, WIDE>(elements, (values, found), [first, width], ranker),
            (_, NARROW..) => {
                let first = first.min(width - NARROW);
                best_of_strip::<N, NARROW>(elements, (values, found), [first, width], ranker)
            }
            (_, FEW..) => {
                let first = first.min(width - FEW);
                best_of_strip::<N, FEW>(elements, (values, found), [first, width], ranker)
            }
            _ => best_of_strip::<N, 1>(elements, (values, found), [first, width], ranker),
        };
    }
}

/// [`best_of_columns`] of `LANES` of `width` columns from `first` on; returns how many. All that is read more than once is in arrays, which
/// the compiler knows to overlap nothing.
#[inline(always)]
fn best_of_strip<N: Sortable, const LANES: usize>(
    elements: &[N],
    (values, found): (&mut [N], &mut [i64]),
    [first, width]: [usize; 2],
    ranker: Ranker,
) -> usize {
    let Some(&zero) = elements.first() else { return LANES };
    let (mut ranks, mut best, mut at) = ([0; LANES], [zero; LANES], [0; LANES]);
    let rows = values.chunks_exact_mut(width).zip(found.chunks_exact_mut(width));
    for (row, (elements, (values, found))) in (0..).zip(elements.chunks_exact(width).zip(rows)) {
        let mut own = [zero; LANES];
        own.copy_from_slice(&elements[first..][..LANES]);
        for lane in 0..LANES {
            let rank = ranker.rank(own[lane]);
            let is_best = rank >= ranks[lane];
            ranks[lane] = if is_best { rank } else { ranks[lane] };
            best[lane] = if is_best { own[lane].normalized() } else { best[lane] };
            at[lane] = if is_best { row } else { at[lane] };
        }
        values[first..][..LANES].copy_from_slice(&best);
        found[first..][..LANES].copy_from_slice(&at);
    }
    LANES
}

/// Shapes and types of [`cummax`].
pub fn cummax_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    cumulative_meta("cummax", self_, dim)
}

/// The maximum of the elements up to each one of a dimension, and its last index; from the first NaN on, NaN.
pub fn cummax(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    cumulative("cummax", self_, dim, (values, indices), Best::Largest)
}

/// Shapes and types of [`cummin`].
pub fn cummin_meta(self_: &Tensor, dim: i64) -> Result<(TensorSpec, TensorSpec)> {
    cumulative_meta("cummin", self_, dim)
}

/// The minimum of the elements up to each one of a dimension, and its last index; from the first NaN on, NaN.
pub fn cummin(self_: &Tensor, dim: i64, values: &Tensor, indices: &Tensor) -> Result<()> {
    cumulative("cummin", self_, dim, (values, indices), Best::Smallest)
}
