//! Sums of rows over segments of positions: products of compressed rows with a matrix, and values of equal coordinates.
//!
//! Work is split by the number of positions. A long segment is summed in pieces of a fixed number, so that bits depend on the length of
//! the segment alone.

use super::arguments::{IndexElement, Pointers, SumElement, parts};
use super::terms::NumberTerms;
use crate::parallel::for_each_task;
use crate::scratch;
use crate::vectorized::{prefetch_cache_line, with_processor_vectors};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Positions of a segment that are summed at a time; the sums of such pieces are added in their order.
const PIECE: usize = 4096;
/// Products that are worth a task.
pub(super) const WORK: usize = 1 << 16;
/// How many positions ahead rows are prefetched. Their addresses are random, which the hardware prefetcher does not foresee.
const AHEAD: usize = 8;
/// Terms that are computed before they are summed, in L1.
const TILE: usize = 512;
const CACHE_LINE: usize = 64;

/// What is summed: rows of a matrix, one for each position.
pub(super) trait Terms<T>: Sync {
    /// The indices of rows.
    type Index: IndexElement;

    /// All rows, one after the other.
    fn matrix(&self) -> &[T];

    /// The length of a row, which is not 0.
    fn width(&self) -> usize;

    /// The row at a position, which may be out of bounds; `None` past the last position.
    fn row(&self, position: usize) -> Option<usize>;

    /// The terms where rows are numbers.
    fn numbers(&self) -> NumberTerms<'_, T, Self::Index>;

    /// The rows at some positions, and the factor of each if it has one.
    fn weighted_rows(&self, positions: Range<usize>) -> impl Iterator<Item = (usize, Option<T>)>;
}

/// The sums of each segment, a row of `out` each; `None` where a row is out of bounds.
pub(super) fn sum_segments<T: SumElement, S: Terms<T>>(
    pointers: &Pointers<'_>,
    terms: &S,
    out: &mut [T],
) -> Option<()> {
    let width = terms.width();
    let is_outside = AtomicBool::new(false);
    let note = |sum: Option<()>| sum.unwrap_or_else(|| is_outside.store(true, Ordering::Relaxed));
    let tasks = parts(out, pointers.ranges(WORK / width), |segments| segments.len() * width);
    for_each_task(tasks, |(segments, out)| {
        note(with_processor_vectors(
            #[inline(always)]
            || {
                if width == 1 {
                    numbers(pointers, segments, &terms.numbers(), out)
                } else {
                    rows(pointers, segments, terms, out)
                }
            },
        ));
    });
    if pointers.longest() > PIECE {
        for segment in (0..pointers.len()).filter(|at| pointers.segment(*at).len() > PIECE) {
            note(sum_pieces(
                pointers.segment(segment),
                terms,
                &mut out[segment * width..(segment + 1) * width],
            ));
        }
    }
    (!is_outside.into_inner()).then_some(())
}

/// The sum of a long segment.
fn sum_pieces<T: SumElement, S: Terms<T>>(positions: Range<usize>, terms: &S, out: &mut [T]) -> Option<()> {
    let (width, is_outside) = (terms.width(), AtomicBool::new(false));
    let mut sums = scratch::filled(T::ZERO, positions.len().div_ceil(PIECE) * width);
    let pieces = positions.clone().step_by(PIECE).map(|start| start..(start + PIECE).min(positions.end));
    let tasks = scratch::collect(pieces.zip(sums.chunks_exact_mut(width)));
    for_each_task(tasks, |(piece, sums)| {
        let sum = with_processor_vectors(
            #[inline(always)]
            || sum_piece(piece, terms, sums),
        );
        sum.unwrap_or_else(|| is_outside.store(true, Ordering::Relaxed));
    });
    out.fill(T::ZERO);
    for piece in sums.chunks_exact(width) {
        out.iter_mut().zip(piece).for_each(|(sum, part)| *sum = sum.plus(*part));
    }
    (!is_outside.into_inner()).then_some(())
}

#[inline(always)]
fn sum_piece<T: SumElement, S: Terms<T>>(positions: Range<usize>, terms: &S, out: &mut [T]) -> Option<()> {
    match out {
        [sum] => sum_numbers(positions, &terms.numbers(), sum),
        _ => sum_rows(positions, terms, out),
    }
}

#[inline(always)]
fn sum_numbers<T: SumElement, I: IndexElement>(
    positions: Range<usize>,
    terms: &NumberTerms<'_, T, I>,
    sum: &mut T,
) -> Option<()> {
    let mut tile = [T::ZERO; TILE];
    *sum = T::ZERO;
    for start in positions.clone().step_by(TILE) {
        let part = start..(start + TILE).min(positions.end);
        let (count, mut of_tile) = (part.len(), [T::ZERO]);
        terms.write(part, &mut tile[..count])?;
        T::segment_sums(|| 0..count, &tile[..count], &mut of_tile);
        *sum = sum.plus(of_tile[0]);
    }
    Some(())
}

/// Segments whose terms are numbers. The terms of many are computed first, so that short segments, whose ends a processor does not
/// foresee, cost no wrong guess for each.
#[inline(always)]
fn numbers<T: SumElement, I: IndexElement>(
    pointers: &Pointers<'_>,
    segments: Range<usize>,
    terms: &NumberTerms<'_, T, I>,
    out: &mut [T],
) -> Option<()> {
    let (first, mut at) = (segments.start, segments.start);
    let mut tile = [T::ZERO; TILE];
    while at < segments.end {
        let (start, mut end, mut last, mut longest) = (pointers.segment(at).start, 0, at, 0);
        while last < segments.end && pointers.segment(last).end - start <= TILE {
            (end, longest) = (pointers.segment(last).end, longest.max(pointers.segment(last).len()));
            last += 1;
        }
        if last == at {
            if pointers.segment(at).len() <= PIECE {
                sum_numbers(pointers.segment(at), terms, &mut out[at - first])?;
            }
            at += 1;
            continue;
        }
        let (sums, tile) = (&mut out[at - first..last - first], &mut tile[..end - start]);
        terms.write(start..end, tile)?;
        let mut of_tile = (at..last).map(|segment| {
            let positions = pointers.segment(segment);
            positions.start - start..positions.end - start
        });
        if longest <= 2 {
            for (sum, positions) in sums.iter_mut().zip(of_tile) {
                *sum = match &tile[positions] {
                    [term] => T::ZERO.plus(*term),
                    [first, second] => first.plus(*second),
                    _ => T::ZERO,
                };
            }
        } else {
            T::segment_sums(
                #[inline(always)]
                || of_tile.next().unwrap_or_default(),
                tile,
                sums,
            );
        }
        at = last;
    }
    Some(())
}

/// Segments whose terms are rows.
#[inline(always)]
fn rows<T: SumElement, S: Terms<T>>(
    pointers: &Pointers<'_>,
    segments: Range<usize>,
    terms: &S,
    out: &mut [T],
) -> Option<()> {
    for (segment, out) in segments.zip(out.chunks_exact_mut(terms.width())) {
        if pointers.segment(segment).len() <= PIECE {
            sum_rows(pointers.segment(segment), terms, out)?;
        }
    }
    Some(())
}

/// The sum of a few rows, some columns at a time, which are summed in registers.
#[inline(always)]
fn sum_rows<T: SumElement, S: Terms<T>>(positions: Range<usize>, terms: &S, out: &mut [T]) -> Option<()> {
    let mut first = 0;
    if size_of::<T>() == 4 {
        first = sum_tiles::<T, S, 64>(&positions, terms, out, first)?;
    }
    first = sum_tiles::<T, S, 32>(&positions, terms, out, first)?;
    first = sum_tiles::<T, S, 8>(&positions, terms, out, first)?;
    sum_rest(&positions, terms, &mut out[first..], first)
}

/// As many tiles of `N` columns as fit; returns the first column that is left.
#[inline(always)]
fn sum_tiles<T: SumElement, S: Terms<T>, const N: usize>(
    positions: &Range<usize>,
    terms: &S,
    out: &mut [T],
    mut first: usize,
) -> Option<usize> {
    while out.len() - first >= N {
        let mut sums = [T::ZERO; N];
        for (position, (row, weight)) in positions.clone().zip(terms.weighted_rows(positions.clone())) {
            prefetch::<T, S, N>(terms, position + AHEAD, first);
            let x: &[T; N] = columns(terms, row, first)?.first_chunk()?;
            match weight {
                Some(weight) => sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = sum.plus(weight.times(*x))),
                None => sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = sum.plus(*x)),
            }
        }
        out[first..first + N].copy_from_slice(&sums);
        first += N;
    }
    Some(first)
}

/// Fewer than 8 columns.
#[inline(always)]
fn sum_rest<T: SumElement, S: Terms<T>>(
    positions: &Range<usize>,
    terms: &S,
    out: &mut [T],
    first: usize,
) -> Option<()> {
    if out.is_empty() {
        return Some(());
    }
    out.fill(T::ZERO);
    for (row, weight) in terms.weighted_rows(positions.clone()) {
        let x = columns(terms, row, first)?;
        for (sum, x) in out.iter_mut().zip(x) {
            *sum = sum.plus(weight.map_or(*x, |weight| weight.times(*x)));
        }
    }
    Some(())
}

/// A row from column `first` on; `None` if it is out of bounds.
#[inline(always)]
fn columns<T, S: Terms<T>>(terms: &S, row: usize, first: usize) -> Option<&[T]> {
    let width = terms.width();
    let start = row.checked_mul(width)?;
    terms.matrix().get(start.checked_add(first)?..start.checked_add(width)?)
}

#[inline(always)]
fn prefetch<T, S: Terms<T>, const N: usize>(terms: &S, position: usize, first: usize) {
    let Some(row) = terms.row(position) else { return };
    let offset = row.wrapping_mul(terms.width()).wrapping_add(first);
    // An address only: it may be of a row that is out of bounds.
    let address = terms.matrix().as_ptr().wrapping_add(offset).cast::<u8>();
    for byte in (0..N * size_of::<T>()).step_by(CACHE_LINE) {
        prefetch_cache_line(address.wrapping_add(byte));
    }
}
