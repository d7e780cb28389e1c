//! `flip`, `roll` and `rot90`.

use crate::loops::copy_elements;
use crate::loops::rolled::{RolledDim, RolledSource};
use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::factory::empty_full::dense_strides;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::shape::view;
use crate::native::shape::view::wrap_dims;
use crate::native::strided_iter::StridedIter;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, ensure, shape};

/// Elements from which on a call that copies bytes is faster than a loop.
const LONG_RUN: usize = 16;

/// Reverses the order of the elements along dimensions `dims`.
pub fn flip(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let dims = wrap_dims("flip", dims, self_.dim())?;
    let made = TensorSpec::like(self_, self_.sizes()).with_strides(dense_strides(self_)?).allocate("flip")?;
    if made.device().is_meta() || made.numel() == 0 {
        return Ok(made);
    }
    // The result is written in the order of its memory.
    let order = memory_order(&made);
    let g = self_.geometry();
    let sizes: DimVec = order.iter().map(|d| g.sizes()[*d]).collect();
    let step = |d: &usize| if dims.contains(d) { -g.strides()[*d] } else { g.strides()[*d] };
    let steps: DimVec = order.iter().map(step).collect();
    let last = |d: &usize| if self_.dim() == 0 { 0 } else { (g.sizes()[*d] - 1) * g.strides()[*d] };
    let start: i64 = dims.iter().map(last).sum();
    let iter = StridedIter::new(&sizes, [&steps]);
    dispatch_all_types!(moved, self_.dtype(), "flip", T => {
        with_slices("flip", &[self_], &[&made], |s| {
            let (from, to) = (s.read::<<T as ElementBits>::Bits>(0)?, s.write::<<T as ElementBits>::Bits>(0)?);
            if flip_short_rows(&iter, start, from, to) {
                return Ok(());
            }
            fill(to, 1, |range, mut part| {
                let step = iter.steps()[0];
                iter.for_each_run(range, |[first], n| {
                    let (row, rest) = std::mem::take(&mut part).split_at_mut(n);
                    part = rest;
                    let first = (start + first) as usize;
                    match step {
                        1 if n >= LONG_RUN => copy_elements(&from[first..first + n], row),
                        -1 => row.iter_mut().zip(from[first + 1 - n..=first].iter().rev()).for_each(|(to, x)| *to = *x),
                        step => {
                            row.iter_mut().zip(0..).for_each(|(to, j)| *to = from[(first as i64 + j * step) as usize]);
                        }
                    }
                    <T as ElementBits>::Bits::normalize_all(row);
                });
            });
            Ok(())
        })
    })?;
    Ok(made)
}

/// Copies rows of up to eight elements, of which none is worth a call or a loop; else does nothing and returns `false`.
fn flip_short_rows<B: RawBits>(iter: &StridedIter<1>, start: i64, from: &[B], to: &mut [B]) -> bool {
    let length = iter.row_length();
    if !matches!(iter.steps(), [-1 | 1]) {
        return length.is_some_and(|length| length <= SHORT_ROW) && flip_by_offsets(iter, start, from, to);
    }
    match length {
        Some(2) => copy_rows::<B, 2, 2>(iter, start, from, to),
        Some(3) => copy_rows::<B, 3, 4>(iter, start, from, to),
        Some(4) => copy_rows::<B, 4, 4>(iter, start, from, to),
        Some(5) => copy_rows::<B, 5, 8>(iter, start, from, to),
        Some(6) => copy_rows::<B, 6, 8>(iter, start, from, to),
        Some(7) => copy_rows::<B, 7, 8>(iter, start, from, to),
        Some(8) => copy_rows::<B, 8, 8>(iter, start, from, to),
        _ => return false,
    }
    true
}

/// Elements of a strided row below which a loop over it takes longer to start than to run.
const SHORT_ROW: usize = 16;

/// Copies elements of rows in any order, if those of several rows are near one another; else does nothing and returns `false`.
fn flip_by_offsets<B: RawBits>(iter: &StridedIter<1>, start: i64, from: &[B], to: &mut [B]) -> bool {
    let size = size_of::<B>();
    let dim = |&(n, [step]): &(usize, [i64; 1])| RolledDim {
        size: n,
        stride: step as isize * size as isize,
        shift: 0,
    };
    let source = RolledSource::new(iter.dims().iter().rev().map(dim), size);
    if source.has_long_rows() || !source.is_local() {
        return false;
    }
    fill(to, 1, |range, part| {
        source.copy_slice(range, from, start as usize, part);
        B::normalize_all(part);
    });
    true
}

/// Copies rows of `N` elements, one after the other, from where `iter` says, counted from `start`. `P` is a power of two, at least `N`.
fn copy_rows<B: RawBits, const N: usize, const P: usize>(
    iter: &StridedIter<1>,
    start: i64,
    from: &[B],
    to: &mut [B],
) {
    let step = iter.steps()[0];
    fill(to, N, |range, part| {
        let mut rest = &mut *part;
        iter.for_each_column(range.start / N..range.end / N, |[first], n, [distance]| {
            let (rows, others) = std::mem::take(&mut rest).split_at_mut(n * N);
            rest = others;
            let first = start + first;
            if step == 1 {
                copy_dense_rows::<B, N, P>(from, first, distance, rows);
            } else {
                copy_reversed_rows::<B, N>(from, first, distance, rows);
            }
        });
        B::normalize_all(part);
    });
}

/// Copies rows of `N` elements that are dense each, from the last element to the first.
#[inline(always)]
fn copy_reversed_rows<B: RawBits, const N: usize>(from: &[B], mut first: i64, distance: i64, to: &mut [B]) {
    for to in to.as_chunks_mut::<N>().0 {
        let row = &from[first as usize + 1 - N..=first as usize];
        *to = std::array::from_fn(|j| row[N - 1 - j]);
        first += distance;
    }
}

/// Copies rows of `N` elements that are dense each. Where there is room, a row is copied as `P` elements, which are a whole number of
/// vectors or registers; those that are too many are overwritten by the next row.
fn copy_dense_rows<B: RawBits, const N: usize, const P: usize>(
    from: &[B],
    mut first: i64,
    distance: i64,
    to: &mut [B],
) {
    // Of several rows, which lie one before the other.
    let length = ROWS_AT_ONCE * N + P - N;
    let before = (ROWS_AT_ONCE - 1) * N;
    let mut at = 0;
    while at < to.len() {
        let here = first as usize;
        if distance == -(N as i64)
            && here >= before
            && let Some(to) = to.get_mut(at..at + length)
            && let Some(from) = from.get(here - before..here - before + length)
        {
            reverse_rows::<B, N, P>(from, to);
            (at, first) = (at + ROWS_AT_ONCE * N, first - (ROWS_AT_ONCE * N) as i64);
            continue;
        }
        match (to.get_mut(at..at + P), from.get(here..here + P)) {
            (Some(to), Some(row)) => to.copy_from_slice(row),
            _ => to[at..at + N].copy_from_slice(&from[here..here + N]),
        }
        (at, first) = (at + N, first + distance);
    }
}

/// Rows that [`reverse_rows`] copies.
const ROWS_AT_ONCE: usize = 8;

/// Copies rows of `N` elements that follow one another, the last one first, and `P - N` elements behind them.
#[inline(always)]
fn reverse_rows<B: RawBits, const N: usize, const P: usize>(from: &[B], to: &mut [B]) {
    // Constants, so that no access is checked.
    let length = ROWS_AT_ONCE * N + P - N;
    let (from, to) = (&from[..length], &mut to[..length]);
    for r in 0..ROWS_AT_ONCE {
        let row = &from[(ROWS_AT_ONCE - 1 - r) * N..][..P];
        to[r * N..][..P].copy_from_slice(row);
    }
}

/// The dimensions of a dense tensor, outermost in memory first.
fn memory_order(dense: &Tensor) -> Vec<usize> {
    let mut order: Vec<usize> = (0..dense.dim()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(dense.strides()[*d]));
    order
}

/// The columns in reverse order.
pub fn fliplr(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Shape("fliplr", "self"), "Input must be >= 2-d.");
    ops::flip(self_, &[1])
}

/// The rows in reverse order.
pub fn flipud(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Shape("flipud", "self"), "Input must be >= 1-d.");
    ops::flip(self_, &[0])
}

/// Shifts elements along dimensions, or in row-major order if none are given; elements beyond the end re-enter at the start.
pub fn roll(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    ensure!(!shifts.is_empty(), InvalidArgument("roll", "shifts"), "`shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = view::view(&ops::contiguous(self_, MemoryFormat::Contiguous)?, &[-1])?;
        return view::view(&rolled(&flat, &[(0, shifts[0])])?, self_.sizes());
    }
    ensure!(
        shifts.len() == dims.len(),
        InvalidArgument("roll", "shifts"),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    ensure!(
        self_.dim() > 0,
        Index("roll", "self"),
        "Dimension specified as {} but tensor has no dimensions",
        dims[0]
    );
    let along = total_shifts(self_, shifts, dims)?;
    let (first, rest) = along.split_at(along.len().min(DIMS_AT_ONCE));
    rest.chunks(DIMS_AT_ONCE).try_fold(rolled(self_, first)?, |result, some| rolled(&result, some))
}

/// The shift of each dimension in `dims`, which may name one several times.
fn total_shifts(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Vec<(usize, i64)>> {
    let mut totals: Vec<(usize, i64)> = vec![];
    for (&dim, &shift) in dims.iter().zip(shifts) {
        let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("roll"))?;
        let size = i128::from(self_.sizes()[d].max(1));
        let known = totals.iter_mut().find(|(known, _)| *known == d);
        let before = known.as_ref().map_or(0, |(_, before)| i128::from(*before));
        let total = (before + i128::from(shift)).rem_euclid(size) as i64;
        match known {
            Some(known) => known.1 = total,
            None => totals.push((d, total)),
        }
    }
    Ok(totals)
}

/// Dimensions that are rolled by one pass over the elements, of which each doubles the number of blocks.
const DIMS_AT_ONCE: usize = 3;

/// A copy with the elements shifted along dimensions.
fn rolled(self_: &Tensor, shifts: &[(usize, i64)]) -> Result<Tensor> {
    let made = TensorSpec::like(self_, self_.sizes()).allocate("roll")?;
    if made.numel() > 0 && !copy_rolled_elements(&made, self_, shifts)? {
        copy_rolled(&made, self_, shifts)?;
    }
    Ok(made)
}

/// Copies the elements in the order of the result, where rows are short; else does nothing and returns `false`.
fn copy_rolled_elements(to: &Tensor, from: &Tensor, shifts: &[(usize, i64)]) -> Result<bool> {
    if !to.device().is_cpu() {
        return Ok(false);
    }
    let (g, size) = (from.geometry(), from.dtype().size());
    let dim = |d: &usize| {
        let shift = shifts.iter().find(|(rolled, _)| rolled == d).map_or(0, |(_, shift)| *shift);
        let n = g.sizes()[*d];
        let stride = g.strides()[*d] as isize * size as isize;
        RolledDim { size: n as usize, stride, shift: shift.rem_euclid(n) as usize }
    };
    let source = RolledSource::new(memory_order(to).iter().rev().map(dim), size);
    if source.has_long_rows() || !source.is_local() {
        return Ok(false);
    }
    dispatch_all_types!(moved, from.dtype(), "roll", T => {
        with_slices("roll", &[from], &[to], |s| {
            let (from, to) = (s.read::<<T as ElementBits>::Bits>(0)?, s.write::<<T as ElementBits>::Bits>(0)?);
            fill(to, 1, |range, part| {
                source.copy_slice(range, from, 0, part);
                <T as ElementBits>::Bits::normalize_all(part);
            });
            Ok(())
        })
    })?;
    Ok(true)
}

/// Copies blocks: along each dimension what stays before the end, and what re-enters at the start.
fn copy_rolled(to: &Tensor, from: &Tensor, shifts: &[(usize, i64)]) -> Result<()> {
    let [(dim, shift), rest @ ..] = shifts else { return ops::copy_(to, from, false) };
    let size = from.sizes()[*dim];
    let shift = shift.rem_euclid(size);
    if shift == 0 {
        return copy_rolled(to, from, rest);
    }
    let part = |t: &Tensor, start, end| view::slice(t, *dim as i64, Some(start), Some(end), 1);
    copy_rolled(&part(to, shift, size)?, &part(from, 0, size - shift)?, rest)?;
    copy_rolled(&part(to, 0, shift)?, &part(from, size - shift, size)?, rest)
}

/// A rotation by `k` times 90 degrees in the plane of two dimensions, from the first towards the second.
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.len() == 2,
        InvalidArgument("rot90", "dims"),
        "expected total rotation dims == 2, but got dims = {}",
        dims.len()
    );
    ensure!(
        self_.dim() >= 2,
        Shape("rot90", "self"),
        "expected total dims >= 2, but got total dims = {}",
        self_.dim()
    );
    wrap_dims("rot90: expected rotation dims to be different", dims, self_.dim())?;
    match k.rem_euclid(4) {
        1 => view::transpose(&ops::flip(self_, &dims[1..])?, dims[0], dims[1]),
        2 => ops::flip(self_, dims),
        3 => view::transpose(&ops::flip(self_, &dims[..1])?, dims[0], dims[1]),
        _ => ops::clone(self_, Some(MemoryFormat::Contiguous)),
    }
}
