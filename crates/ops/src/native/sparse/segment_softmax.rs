//! Softmax over segments of positions: the elements of a sparse row, where all others count as minus infinity.

use super::arguments::{Pointers, contiguous, indices, parts, sum_type};
use super::coo::segment_sums;
use super::segments::WORK;
use crate::native::guarded_slices::with_slices;
use crate::parallel::for_each_task;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{Result, ensure, shape};
use std::ops::{Div, Range, Sub};

/// The softmax of `values` in each segment of `starts`, or its logarithm.
pub fn segment_softmax(values: &Tensor, starts: &Tensor, log: bool) -> Result<Tensor> {
    const NAME: &str = "_segment_softmax";
    let rows = values.size(0).map_err(|e| e.in_operator(NAME))?;
    let starts = indices(NAME, "starts", starts)?;
    ensure!(
        values.dtype().is_floating_point(),
        Dtype(NAME, "values"),
        "expected floating-point numbers but got {}",
        values.dtype()
    );
    ensure!(
        starts.numel() > 0,
        Shape(NAME, "starts"),
        "expected starts of segments, with the end of the last, but got none"
    );
    if values.device().is_meta() {
        return TensorSpec::like(values, values.sizes()).allocate(NAME);
    }
    let dtype = sum_type(NAME, values.dtype())?;
    let from = contiguous(values, dtype)?;
    let out = TensorSpec::like(&from, from.sizes()).allocate(NAME)?;
    let width = shape::numel(&from.sizes()[1..])? as usize;
    dispatch_all_types!(wide_floats, dtype, NAME, T => {
        with_slices(NAME, &[&from, &starts], &[&out], |s| {
            let segments = Pointers::new(NAME, "starts", s.read(1)?, rows as usize)?;
            let from = s.read::<T>(0)?;
            each_segment(&segments, width, s.write(0)?, |at, out| {
                let positions = segments.segment(at);
                shift(&from[positions.start * width..positions.end * width], width, out);
            });
            Ok(())
        })
    })?;
    let powers = match log {
        true => ops::exp(&out)?,
        false => {
            ops::exp_(&out)?;
            out.clone()
        }
    };
    let sums = segment_sums(NAME, &powers, None, &starts)?;
    if log {
        ops::log_(&sums)?;
    }
    dispatch_all_types!(wide_floats, dtype, NAME, T => {
        with_slices(NAME, &[&sums, &starts], &[&out], |s| {
            let segments = Pointers::new(NAME, "starts", s.read(1)?, rows as usize)?;
            let sums = s.read::<T>(0)?;
            each_segment(&segments, width, s.write(0)?, |at, out| {
                normalize(out, &sums[at * width..(at + 1) * width], log);
            });
            Ok(())
        })
    })?;
    contiguous(&out, values.dtype())
}

/// Calls `f` with each segment that has elements, and these.
fn each_segment<T: Send>(
    segments: &Pointers<'_>,
    width: usize,
    out: &mut [T],
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    if width == 0 {
        return;
    }
    let elements = |range: &Range<usize>| {
        (segments.segment(range.end - 1).end - segments.segment(range.start).start) * width
    };
    for_each_task(parts(out, segments.ranges(WORK / width), elements), |(range, mut out)| {
        for at in range {
            let (own, rest) = std::mem::take(&mut out).split_at_mut(segments.segment(at).len() * width);
            if !own.is_empty() {
                f(at, own);
            }
            out = rest;
        }
    });
}

/// `from` less the maximum of each column. Where that is NaN or infinite, so is a difference, and with it the sum of exponentials.
fn shift<T: Pod + PartialOrd + Sub<Output = T>>(from: &[T], width: usize, to: &mut [T]) {
    if width == 1 {
        let largest = from.iter().copied().reduce(|largest, x| if x > largest { x } else { largest });
        let pairs = to.iter_mut().zip(from);
        return largest.map_or((), |largest| pairs.for_each(|(to, x)| *to = *x - largest));
    }
    let mut largest = scratch::to_vec(&from[..width]);
    for row in from.chunks_exact(width) {
        largest
            .iter_mut()
            .zip(row)
            .for_each(|(largest, x)| *largest = if *x > *largest { *x } else { *largest });
    }
    for (to, row) in to.chunks_exact_mut(width).zip(from.chunks_exact(width)) {
        to.iter_mut().zip(row).zip(&largest).for_each(|((to, x), largest)| *to = *x - *largest);
    }
}

/// Divides each row by `sums`, or if `log` subtracts them.
fn normalize<T: Pod + Div<Output = T> + Sub<Output = T>>(rows: &mut [T], sums: &[T], log: bool) {
    for row in rows.chunks_exact_mut(sums.len()) {
        let pairs = row.iter_mut().zip(sums);
        match log {
            true => pairs.for_each(|(x, sum)| *x = *x - *sum),
            false => pairs.for_each(|(x, sum)| *x = *x / *sum),
        }
    }
}
