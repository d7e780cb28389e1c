//! Places along one dimension that a tensor of indices names, and the elements read there.

mod put;

pub(super) use put::{Combine, in_wide, widened};

use super::copy;
use super::slices::{Slices, fill, with_slices};
use super::stored::{Moved, Stored};
use super::walk::Walk;
use crate::loops::streaming;
use crate::parallel::parallel_for;
use crate::tensor_iterator::GRAIN;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, Error, ErrorKind, Result, ScalarType, bail, ensure, shape};
use std::sync::atomic::{AtomicBool, Ordering};

/// `index` as i64, refused unless it is an integer of 32 or 64 bits.
pub(super) fn long_index(name: &str, index: &Tensor) -> Result<Tensor> {
    match index.dtype() {
        ScalarType::I64 => Ok(index.clone()),
        ScalarType::I32 => copy::to_copy(index, Some(ScalarType::I64), None, None, None, false, None),
        other => bail!(Dtype, "{name}: Expected dtype int32/int64 for index but got {other}"),
    }
}

/// Refuses indices outside `0..size`. In Python most operators raise IndexError, but those of the gather family RuntimeError.
pub(super) fn check_range(name: &str, index: &[i64], walk: &Walk<1>, dim: usize, size: i64) -> Result<()> {
    // A negative index is a large one.
    let is_outside = |i: i64| i as u64 >= size as u64;
    let ([step], outside) = (walk.steps(), AtomicBool::new(false));
    parallel_for(0..walk.numel(), GRAIN, |range| {
        walk.stretches(range, |[at], n| {
            let any = match step {
                // Without a way out in the middle, so that whole vectors are looked at.
                1 => index[at as usize..][..n].iter().fold(false, |any, &i| any | is_outside(i)),
                _ => (0..n as i64).any(|j| is_outside(index[(at + j * step) as usize])),
            };
            if any {
                outside.store(true, Ordering::Relaxed);
            }
        });
    });
    let mut wrong = None;
    if outside.into_inner() {
        walk.each(|[at]| wrong = wrong.or(Some(index[at as usize]).filter(|&i| is_outside(i))));
    }
    match wrong {
        Some(i) => {
            let family = ["gather", "index_add"].contains(&name) || name.starts_with("scatter");
            let kind = if family { ErrorKind::InvalidArgument } else { ErrorKind::Index };
            let message = format!("{name}: index {i} is out of bounds for dimension {dim} with size {size}");
            Err(Error::new(kind, message))
        }
        None => Ok(()),
    }
}

/// Sizes and strides as if there were at least one dimension.
pub(super) fn at_least_1d(tensor: &Tensor) -> (DimVec, DimVec) {
    let (mut sizes, mut strides) = (DimVec::from_slice(tensor.sizes()), DimVec::from_slice(tensor.strides()));
    if sizes.is_empty() {
        sizes.push(1);
        strides.push(1);
    }
    (sizes, strides)
}

/// Lines of which nearly all is met, in no order: while one is, the next one comes.
#[derive(Default)]
struct Ahead {
    last: Option<i64>,
    expected: Option<i64>,
}

impl Ahead {
    /// What to ask for while `n` elements are met of the line of `named` that begins at `at`, counted from `first`: the line after it, if
    /// they go on as they did. The line itself is asked for if it was not.
    fn meet<B>(&mut self, first: *const B, at: i64, named: usize, n: usize) -> Soon {
        if n * LINE < named || named > AT_ONCE {
            return Soon::NOTHING;
        }
        let (line, bytes) =
            (|at: i64| first.wrapping_offset(at as isize).cast::<u8>(), named * size_of::<B>());
        if self.expected != Some(at) {
            streaming::ask_for_bytes(line(at), bytes);
        }
        let next = at + self.last.map_or(named as i64, |last| at - last);
        (self.last, self.expected) = (Some(at), Some(next));
        Soon { from: line(next), left: bytes, share: (bytes * LINE).div_ceil(n).next_multiple_of(64) }
    }
}

/// Bytes to be asked for, a share at a time; they need not be there.
struct Soon {
    from: *const u8,
    left: usize,
    share: usize,
}

impl Soon {
    const NOTHING: Self = Soon { from: std::ptr::null(), left: 0, share: 0 };

    /// Once for every [`LINE`] elements of the present line.
    fn ask(&mut self) {
        let share = self.share.min(self.left);
        streaming::ask_for_bytes(self.from, share);
        (self.from, self.left) = (self.from.wrapping_add(share), self.left - share);
    }
}

/// `row[j] = line[index[j] * stride]`; meanwhile asks for what is met `soon`.
fn pick_line<B: Moved>(row: &mut [B], line: &[B], index: &[i64], stride: i64, mut soon: Soon) {
    for (row, index) in row.chunks_mut(LINE).zip(index.chunks(LINE)) {
        soon.ask();
        for (to, i) in row.iter_mut().zip(index) {
            *to = line[(i * stride) as usize].settled();
        }
    }
}

/// How the places of one dimension are named.
pub(super) struct Places<'a> {
    /// The operator, for messages.
    pub(super) name: &'a str,
    /// The sizes walked.
    pub(super) sizes: &'a [i64],
    /// Strides of the tensor whose places are named, 0 along the dimension.
    pub(super) strides: &'a [i64],
    /// Strides of the indices over `sizes`.
    pub(super) index_strides: &'a [i64],
    /// The dimension, its size, and the distance of its places.
    pub(super) dim: usize,
    pub(super) size: i64,
    pub(super) stride: i64,
}

/// Elements of a line of four bytes each, and how many are asked for at once at most.
const LINE: usize = 16;
const AT_ONCE: usize = 1 << 15;

impl Places<'_> {
    fn check(&self, index: &[i64]) -> Result<()> {
        // Dimensions along which indices repeat need one look.
        let repeats = |d: &usize| self.index_strides[*d] == 0 && self.sizes[*d] > 0;
        let sizes: DimVec =
            (0..self.sizes.len()).map(|d| if repeats(&d) { 1 } else { self.sizes[d] }).collect();
        check_range(self.name, index, &Walk::new(&sizes, [self.index_strides]), self.dim, self.size)
    }

    /// `out[at] = from[place(at)]`, with `out` dense over `sizes`; `index` is input 1.
    pub(super) fn pick(&self, from: &Tensor, index: &Tensor, out: &Tensor) -> Result<()> {
        dispatch_all_types!(all, from.dtype(), self.name, T => {
            with_slices(self.name, &[from, index], &[out], |s| {
                self.check(s.read::<i64>(1)?)?;
                self.pick_bits::<<T as Stored>::Bits>(s)
            })
        })
    }

    fn pick_bits<B: Moved>(&self, s: &Slices<'_>) -> Result<()> {
        let (from, index, out) = (s.read::<B>(0)?, s.read::<i64>(1)?, s.write::<B>(0)?);
        let walk = Walk::new(self.sizes, [self.strides, self.index_strides]);
        let ([step, index_step], stride) = (walk.steps(), self.stride);
        if let (Some((width, [0, along])), [1, 0]) = (walk.rows(), [step, index_step]) {
            let named = |r: usize| &from[(index[r * along as usize] * stride) as usize..][..width];
            let streams = streaming::pays(size_of_val(out), || 1);
            fill(out, width, |range, part| {
                let first = range.start / width;
                streaming::copy_rows(part, width, streams, |r| named(first + r));
                B::settle(part);
            });
            return Ok(());
        }
        fill(out, 1, |range, mut part| {
            let mut lines = Ahead::default();
            walk.stretches(range, |[at, index_at], n| {
                let (row, rest) = std::mem::take(&mut part).split_at_mut(n);
                part = rest;
                if index_step == 0 && step == 1 {
                    let start = (at + index[index_at as usize] * stride) as usize;
                    row.copy_from_slice(&from[start..start + n]);
                    return B::settle(row);
                }
                if index_step == 1 && step == 0 {
                    let (line, index) = (&from[at as usize..], &index[index_at as usize..][..n]);
                    let soon = match stride {
                        1 => lines.meet(from.as_ptr(), at, self.size as usize, n),
                        _ => Soon::NOTHING,
                    };
                    return pick_line(row, line, index, stride, soon);
                }
                for (to, j) in row.iter_mut().zip(0i64..) {
                    let place = at + j * step + index[(index_at + j * index_step) as usize] * stride;
                    *to = from[place as usize].settled();
                }
            });
        });
        Ok(())
    }
}

/// Refuses what no element can be written twice into.
pub(super) fn ensure_written_once(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        !shape::has_internal_overlap(self_.sizes(), self_.strides()),
        Aliasing,
        "{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation."
    );
    Ok(())
}
