//! Dense images resized on the CPU, one dimension at a time: what an output reads is the same for all rows.
#![expect(unsafe_code, reason = "enters kernels for an instruction set")]

use crate::Tensor;
use crate::native::element_bits::{ElementBits, Numeric, RawBits};
use crate::native::guarded_slices::{fill, with_slices};
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};
use crate::{dispatch_all_types, scratch};
use flambeau_core::{Element, Result, Scalar, bail};

/// Runs of adjacent elements shorter than this are looped over together with the outputs, since a loop over each takes longer to start
/// than to run.
const SHORT: usize = 16;
/// The largest table of such outputs, in elements.
const MAX_TABLE: usize = 1 << 14;

/// A dimension of a dense tensor: its size in input and output, and the number of elements that an index of it selects.
#[derive(Clone, Copy)]
pub(super) struct Dimension {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) inner: usize,
}

impl Dimension {
    /// Of which each index selects one element, with the table for it, if runs of elements are short.
    fn flattened<T: Copy>(self, table: &[(usize, T)], each: usize) -> (Self, Option<Vec<(usize, T)>>) {
        let Dimension { from, to, inner } = self;
        if inner == 1 || inner >= SHORT || table.len().saturating_mul(inner) > MAX_TABLE {
            return (self, None);
        }
        let mut all = scratch::with_capacity(table.len() * inner);
        for reads in table.chunks_exact(each) {
            for i in 0..inner {
                all.extend(reads.iter().map(|(at, weight)| (at * inner + i, *weight)));
            }
        }
        (Dimension { from: from * inner, to: to * inner, inner: 1 }, Some(all))
    }
}

/// Copies the elements at `reads` of a dimension.
///
/// # Errors
/// Those of the guards.
pub(super) fn copied(
    name: &str,
    x: &Tensor,
    y: &Tensor,
    dimension: Dimension,
    reads: &[usize],
) -> Result<()> {
    dispatch_all_types!(moved, x.dtype(), name, T => with_slices(name, &[x], &[y], |s| {
        let table = scratch::collect(reads.iter().map(|at| (*at, ())));
        let (from, to) = (s.read(0)?, s.write(0)?);
        scratch::catch(|| {
            copy::<<T as ElementBits>::Bits>(from, to, dimension, &table);
            Ok(())
        })
    }))
}

fn copy<B: RawBits>(x: &[B], y: &mut [B], dimension: Dimension, table: &[(usize, ())]) {
    let (Dimension { from, to, inner }, flattened) = dimension.flattened(table, 1);
    let table = flattened.as_deref().unwrap_or(table);
    if inner == 1 {
        return fill(y, to, |range, part| {
            for (row, r) in part.chunks_exact_mut(to).zip(range.start / to..) {
                let source = &x[r * from..][..from];
                for (to, (at, ())) in row.iter_mut().zip(table) {
                    *to = source[*at].normalized();
                }
            }
        });
    }
    fill(y, inner, |range, part| {
        for (run, r) in part.chunks_exact_mut(inner).zip(range.start / inner..) {
            run.copy_from_slice(&x[(r / to * from + table[r % to].0) * inner..][..inner]);
            B::normalize_all(run);
        }
    });
}

/// Weighted sums of the `each` elements of a dimension that `table` names for each output.
///
/// # Errors
/// Those of the guards, and `NotImplemented` for numbers of elements that no interpolation has.
pub(super) fn weighted<T: Element + Numeric>(
    name: &str,
    [x, y]: [&Tensor; 2],
    dimension: Dimension,
    table: &[(usize, f64)],
    each: usize,
) -> Result<()> {
    with_slices(name, &[x], &[y], |s| {
        let table = scratch::collect(table.iter().map(|(at, weight)| (*at, T::of(Scalar::Float(*weight)))));
        let (x, y) = (s.read::<T>(0)?, s.write::<T>(0)?);
        match each {
            2 => scratch::catch(|| {
                sums::<T, 2>(x, y, dimension, &table);
                Ok(())
            }),
            4 => scratch::catch(|| {
                sums::<T, 4>(x, y, dimension, &table);
                Ok(())
            }),
            _ => bail!(Internal, "{name}: expected 2 or 4 neighbours but got {each}"),
        }
    })
}

fn sums<T: Element + Numeric, const EACH: usize>(
    x: &[T],
    y: &mut [T],
    dimension: Dimension,
    table: &[(usize, T)],
) {
    let (dimension, flattened) = dimension.flattened(table, EACH);
    let table = flattened.as_deref().unwrap_or(table);
    let unit = if dimension.inner == 1 { dimension.to } else { dimension.inner };
    fill(y, unit, |range, to| {
        // SAFETY: the kernel has no conditions.
        unsafe {
            dispatch(Sums::<T, EACH> { first: range.start / unit, x, to, dimension, table });
        }
    });
}

/// Rows of the output from `first` on, or runs of elements that one index selects where these are longer than one element.
struct Sums<'a, T, const EACH: usize> {
    first: usize,
    x: &'a [T],
    to: &'a mut [T],
    dimension: Dimension,
    table: &'a [(usize, T)],
}

impl<T, const EACH: usize> CodegenAnchor for Sums<'_, T, EACH> {
    type Anchor = Self;
}

impl<I: Isa, T: Numeric, const EACH: usize> Kernel<I> for Sums<'_, T, EACH> {
    #[inline(always)]
    unsafe fn run(self) {
        let Dimension { from, to, inner } = self.dimension;
        if inner == 1 {
            for (row, r) in self.to.chunks_exact_mut(to).zip(self.first..) {
                sums_of_row::<T, EACH>(&self.x[r * from..][..from], row, self.table);
            }
            return;
        }
        for (run, r) in self.to.chunks_exact_mut(inner).zip(self.first..) {
            let image = &self.x[r / to * from * inner..][..from * inner];
            sums_of_runs::<T, EACH>(image, run, &self.table[r % to * EACH..][..EACH]);
        }
    }
}

#[inline(always)]
fn sums_of_row<T: Numeric, const EACH: usize>(from: &[T], to: &mut [T], table: &[(usize, T)]) {
    for (to, reads) in to.iter_mut().zip(table.chunks_exact(EACH)) {
        let mut sum = from[reads[0].0].times(reads[0].1);
        for k in 1..EACH {
            sum = sum.plus(from[reads[k].0].times(reads[k].1));
        }
        *to = sum;
    }
}

/// The weighted sum of the runs of as many elements as `to` has.
#[inline(always)]
fn sums_of_runs<T: Numeric, const EACH: usize>(from: &[T], to: &mut [T], reads: &[(usize, T)]) {
    let n = to.len();
    let mut runs = [from; EACH];
    for k in 0..EACH {
        runs[k] = &from[reads[k].0 * n..][..n];
    }
    for i in 0..n {
        let mut sum = runs[0][i].times(reads[0].1);
        for k in 1..EACH {
            sum = sum.plus(runs[k][i].times(reads[k].1));
        }
        to[i] = sum;
    }
}
