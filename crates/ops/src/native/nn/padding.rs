//! Reflection and replication padding: one pass over the rows on the CPU, else `_resample`.

use crate::loops::copy_elements;
use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::pointwise::accumulate::dispatches_to_cpu;
use crate::native::shape::view::alias;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, Result, ensure, fallible};
use smallvec::SmallVec;
use std::ops::Range;

/// Pads the last `n` dimensions: `source` maps an index, which may be outside of the dimension, and the size to an index inside.
fn padded(
    name: &str,
    self_: &Tensor,
    padding: &[i64],
    n: usize,
    (is_reflection, source): (bool, fn(i64, i64) -> i64),
) -> Result<Tensor> {
    ensure!(
        padding.len() == 2 * n,
        InvalidArgument(name, "padding"),
        "padding size is expected to be {}",
        2 * n
    );
    let rank = self_.dim();
    ensure!(
        rank == n + 1 || rank == n + 2,
        Shape(name, "self"),
        "Expected {}D or {}D (batch mode) tensor for input, but got: {:?}",
        n + 1,
        n + 2,
        self_.sizes()
    );
    let mut indices: SmallVec<[Vec<i64>; 3]> = SmallVec::new();
    for (pair, d) in padding.chunks(2).zip((0..rank).rev()) {
        let size = self_.sizes()[d];
        ensure!(
            size > 0 && (!is_reflection || (pair[0] < size && pair[1] < size)),
            InvalidArgument(name, "padding"),
            "Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) at dimension \
             {d} of input {:?}",
            pair[0],
            pair[1],
            self_.sizes()
        );
        let end = size.checked_add(pair[1]).unwrap_or(i64::MIN);
        let length = end.checked_add(pair[0]);
        ensure!(
            pair[0] > i64::MIN && length.is_some_and(|length| length > 0),
            InvalidArgument(name, "padding"),
            "input of size {size} with padding {pair:?} has no output"
        );
        let own = fallible::collect((-pair[0]..end).map(|index| source(index, size)));
        indices.push(own.map_err(|e| e.in_operator(name))?);
    }
    if dispatches_to_cpu(self_.key_set()) {
        // An alias, whose sizes no other thread changes.
        return in_one_pass(name, &alias(self_)?, &indices, padding);
    }
    let sizes: DimVec = indices.iter().rev().map(|indices| indices.len() as i64).collect();
    let before: SmallVec<[f64; 3]> = padding.chunks(2).rev().map(|pair| pair[0] as f64).collect();
    ops::_resample(self_, &sizes, if is_reflection { 5 } else { 4 }, false, &before)
}

/// The padded tensor, given the indices of its elements along each padded dimension, innermost first.
fn in_one_pass(name: &str, self_: &Tensor, indices: &[Vec<i64>], padding: &[i64]) -> Result<Tensor> {
    let (mut sizes, mut offsets) = (DimVec::from_slice(self_.sizes()), Offsets::new());
    for (d, stride) in self_.strides().iter().enumerate() {
        let along = match indices.get(self_.dim() - 1 - d) {
            Some(indices) => fallible::collect(indices.iter().map(|index| (index * stride) as usize)),
            None => fallible::collect((0..sizes[d]).map(|index| (index * stride) as usize)),
        };
        let along = along.map_err(|e| e.in_operator(name))?;
        sizes[d] = along.len() as i64;
        offsets.push(along);
    }
    let out = TensorSpec::like(self_, &sizes).allocate(name)?;
    let Some(mut columns) = offsets.pop() else { return Ok(out) };
    if out.numel() == 0 {
        return Ok(out);
    }
    // The elements of a row that are not border, and are adjacent in the source.
    let inner = padding[0].max(0) as usize..columns.len().saturating_sub(padding[1].max(0) as usize);
    let is_worth_a_call = self_.strides().last() == Some(&1) && inner.len() > SHORT;
    let inner = if is_worth_a_call { inner } else { 0..0 };
    // Rows that are copied one element at a time are short: several of them are one row, as many as the largest table has.
    while inner.is_empty()
        && let [_, .., along] = &offsets[..]
        && columns.len().saturating_mul(along.len()) <= MAX_TABLE
    {
        columns = fallible::collect(along.iter().flat_map(|row| columns.iter().map(move |at| row + at)))?;
        offsets.pop();
    }
    dispatch_all_types!(moved, self_.dtype(), name, T => {
        with_slices(name, &[self_], &[&out], |s| {
            type B = <T as ElementBits>::Bits;
            copy_rows::<B>(s.read(0)?, s.write(0)?, &offsets, (&columns[..], inner.clone()));
            Ok(())
        })
    })?;
    Ok(out)
}

/// For each dimension, the offset in the source of each index of the result.
type Offsets = SmallVec<[Vec<usize>; 5]>;

/// Runs of so few elements are copied one by one.
const SHORT: usize = 8;
/// The largest table of the offsets of such runs, in elements.
const MAX_TABLE: usize = 1 << 10;

/// Copies the rows at `rows`, each of whose elements is at the offsets `columns`; those of `inner` are adjacent.
fn copy_rows<B: RawBits>(
    from: &[B],
    to: &mut [B],
    rows: &[Vec<usize>],
    (columns, inner): (&[usize], Range<usize>),
) {
    let width = columns.len();
    fill(to, width, |range, part| {
        let starts = RowStarts::new(rows, range.start / width);
        for (to, start) in part.chunks_exact_mut(width).zip(starts) {
            let source = &from[start..];
            if inner.is_empty() {
                to.iter_mut().zip(columns).for_each(|(to, at)| *to = source[*at]);
                continue;
            }
            let border = (0..inner.start).chain(inner.end..width);
            border.for_each(|i| to[i] = source[columns[i]]);
            if let Some(first) = columns[inner.clone()].first() {
                copy_elements(&source[*first..], &mut to[inner.clone()]);
            }
        }
        B::normalize_all(part);
    });
}

/// The offsets of rows, in row-major order: the sums of the offsets along each dimension.
struct RowStarts<'a> {
    offsets: &'a [Vec<usize>],
    index: SmallVec<[usize; 4]>,
}

impl<'a> RowStarts<'a> {
    /// From row number `row` on.
    fn new(offsets: &'a [Vec<usize>], mut row: usize) -> Self {
        let mut index = SmallVec::from_elem(0, offsets.len());
        for (index, along) in index.iter_mut().zip(offsets).rev() {
            *index = row % along.len();
            row /= along.len();
        }
        RowStarts { offsets, index }
    }
}

impl Iterator for RowStarts<'_> {
    type Item = usize;

    /// There is always another: after the last row the first.
    fn next(&mut self) -> Option<usize> {
        let start = self.offsets.iter().zip(&self.index).map(|(along, index)| along[*index]).sum();
        for (along, index) in self.offsets.iter().zip(&mut self.index).rev() {
            *index += 1;
            if *index < along.len() {
                break;
            }
            *index = 0;
        }
        Some(start)
    }
}

/// Reflects an index at the border, which is not repeated.
pub(super) fn reflected(index: i64, size: i64) -> i64 {
    let index = index.abs();
    if index < size { index } else { 2 * (size - 1) - index }
}

/// The index of the border element that is nearest.
pub(super) fn replicated(index: i64, size: i64) -> i64 {
    index.clamp(0, size - 1)
}

macro_rules! pads {
    ($($name:ident $n:literal $is_reflection:literal $source:ident;)*) => {$(
        #[doc = concat!("Borders along the last ", $n, " dimensions, ", stringify!($source), ".")]
        pub fn $name(self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            padded(stringify!($name), self_, padding, $n, ($is_reflection, $source))
        }
    )*};
}

pads! {
    reflection_pad1d 1 true reflected;
    reflection_pad2d 2 true reflected;
    reflection_pad3d 3 true reflected;
    replication_pad1d 1 false replicated;
    replication_pad2d 2 false replicated;
    replication_pad3d 3 false replicated;
}
