//! Places along one dimension that a tensor of indices names, and the elements read there.

mod ahead;
mod named;
mod put;

pub(in crate::native) use named::Places;
pub(in crate::native) use put::{Combine, in_wide, widened};

use crate::native::factory::copy;
use crate::native::guarded_slices::{Slices, fill, with_slices};
use crate::native::element_bits::{Moved, Stored};
use crate::native::strided_iter::Walk;
use crate::loops::streaming;
use crate::{Tensor, dispatch_all_types};
use ahead::{Ahead, LINE, Soon};
use flambeau_core::{DimVec, Result, ScalarType, bail, ensure, shape};

/// `index` as i64, refused unless it is an integer of 32 or 64 bits.
pub(crate) fn long_index(name: &str, index: &Tensor) -> Result<Tensor> {
    match index.dtype() {
        ScalarType::I64 => Ok(index.clone()),
        ScalarType::I32 => copy::to_copy(index, Some(ScalarType::I64), None, None, None, false, None),
        other => bail!(Dtype, "{name}: Expected dtype int32/int64 for index but got {other}"),
    }
}

/// Sizes and strides as if there were at least one dimension.
pub(crate) fn at_least_1d(tensor: &Tensor) -> (DimVec, DimVec) {
    let (mut sizes, mut strides) = (DimVec::from_slice(tensor.sizes()), DimVec::from_slice(tensor.strides()));
    if sizes.is_empty() {
        sizes.push(1);
        strides.push(1);
    }
    (sizes, strides)
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

impl Places<'_> {
    /// `out[at] = from[place(at)]`, with `out` dense over `sizes`; `index` is input 1.
    pub(crate) fn pick(&self, from: &Tensor, index: &Tensor, out: &Tensor) -> Result<()> {
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
            let streams = streaming::should_stream(size_of_val(out), || 1);
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
pub(crate) fn ensure_written_once(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        !shape::has_internal_overlap(self_.sizes(), self_.strides()),
        Aliasing,
        "{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
         Please clone() the tensor before performing the operation."
    );
    Ok(())
}
