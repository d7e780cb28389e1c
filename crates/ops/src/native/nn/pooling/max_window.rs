//! The maximum of each window, a row of the output at a time, so that the inner loop vectorizes; and its gradient.
#![expect(unsafe_code, reason = "raw operands")]

use super::channel_strips::{CHUNK, MAX_PIXELS_OF_CHUNK, SHORT_ROW, Strips};
use super::channels::{Channel, Channels, PoolElement, for_each_channel, for_each_part, rows};
use super::max_lanes::{self, Reads};
use super::max_pool_2x2;
use super::running_max::{UNSET, update};
use super::windows::{Pool, Window};
use crate::native::strided_gather::gather;
use crate::scratch::{self, Scratch};
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};
use flambeau_core::shape;
use std::ops::Range;

/// The maximum of each window and its row-major index in the channel. Of equal elements the first counts; NaN is greater than
/// every number, and of several NaNs the last counts.
///
/// # Safety
/// - `x` is readable as `pool` says; `y` and `indices` are writable, disjoint from `x` and from each other, and used by no other
///   thread.
pub(super) unsafe fn max<T: PoolElement>(
    pool: &Pool,
    x: &Channels<T>,
    y: &Channels<T>,
    indices: &Channels<i64>,
) {
    if pool.input[2] == 1 && pool.input[1] > 1 {
        // A column is a row of the exchanged image, whose pixels have the same numbers.
        // SAFETY: the caller's conditions.
        return unsafe { max(&pool.exchanged(), &x.exchanged(), &y.exchanged(), &indices.exchanged()) };
    }
    // SAFETY: the caller's conditions.
    if unsafe { max_pool_2x2::max(pool, x, y, indices) } {
        return;
    }
    let [input, output] = [pool.input, pool.output].map(|sizes| sizes.map(|size| size as usize));
    if let Some(strips) = strips(input, output, x, y, indices) {
        let windows = max_lanes::Windows {
            along: [0, 1, 2].map(|d| reads(pool, d)),
            steps: pool.dilation.map(|step| step as usize),
        };
        // SAFETY: the caller's conditions.
        return unsafe { max_lanes::max(&strips, &windows, input, x, y, indices) };
    }
    let (output_numel, offsets, spans) = (shape::product(&pool.output), offsets(pool), spans(pool));
    let work = output_numel.saturating_mul(pool.kernel_numel()) as usize;
    let kernel_range = [0, 1, 2].map(|d| pool.kernel_range(d));
    for_each_part(x.count, work, |channels| {
        let kernel_range = kernel_range.clone();
        // SAFETY: the caller's conditions; channels are apart.
        unsafe {
            dispatch(Max { pool, kernel_range, offsets: &offsets, spans: &spans, channels, x, y, indices })
        }
    });
}

/// The strips of channels, if lanes suit these operands.
fn strips<T>(
    input: [usize; 3],
    output: [usize; 3],
    x: &Channels<T>,
    y: &Channels<T>,
    indices: &Channels<i64>,
) -> Option<Strips> {
    let is_numbered = input.iter().product::<usize>() < UNSET as usize;
    let layouts = [x.layout(), y.layout(), indices.layout()];
    is_numbered.then(|| Strips::of(x.count, &layouts, [input, output], MAX_PIXELS_OF_CHUNK)).flatten()
}

/// What each output reads along dimension `d`.
fn reads(pool: &Pool, d: usize) -> Vec<Reads> {
    let (positions, size, step) = (pool.kernel_range(d), pool.input[d], pool.dilation[d]);
    let of_output = |output| {
        let unread = source(pool, d, output, positions.start);
        let outside = if unread < 0 { (-unread - 1) / step + 1 } else { 0 };
        let start = unread + outside.min(positions.end - positions.start) * step;
        let room = if (0..size).contains(&start) { (size - 1 - start) / step + 1 } else { 0 };
        let count = (positions.end - positions.start - outside).clamp(0, room);
        Reads { start: start.max(0) as usize, count: count as usize, unread }
    };
    scratch::collect((0..pool.output[d]).map(of_output))
}

/// The offset in a channel of each kernel position in range from the first; a last 0 stands for no position.
fn offsets(pool: &Pool) -> Vec<i64> {
    let [_, height, width] = pool.input;
    let along = |d: usize, size: i64| {
        (0..pool.kernel_range(d).count() as i64).map(move |position| position * pool.dilation[d] * size)
    };
    let rows = along(0, height * width).flat_map(|z| along(1, width).map(move |y| z + y));
    scratch::collect(rows.flat_map(|row| along(2, 1).map(move |x| row + x)).chain([0]))
}

/// The part of an output row for which one column of the kernel is inside the input.
struct Span {
    outputs: Range<usize>,
    /// The input column that the first of them reads.
    from: usize,
}

/// A span for each column of the kernel in range.
fn spans(pool: &Pool) -> Vec<Span> {
    let span = |position| {
        let shift = source(pool, 2, 0, position);
        // The first output that reads at or after `bound`.
        let first = |bound: i64| {
            let reached = if bound <= shift { 0 } else { (bound - shift - 1) / pool.stride[2] + 1 };
            reached.min(pool.output[2])
        };
        let (low, high) = (first(0), first(pool.input[2]));
        Span { outputs: low as usize..high as usize, from: source(pool, 2, low, position).max(0) as usize }
    };
    scratch::collect(pool.kernel_range(2).map(span))
}

/// The index in the input that an output reads through a kernel position, along one dimension.
#[inline(always)]
fn source(pool: &Pool, d: usize, output: i64, position: i64) -> i64 {
    output * pool.stride[d] - pool.padding[d] + position * pool.dilation[d]
}

/// The pooling of some channels.
struct Max<'a, T> {
    pool: &'a Pool,
    /// The kernel positions in range.
    kernel_range: [Range<i64>; 3],
    offsets: &'a [i64],
    spans: &'a [Span],
    channels: Range<usize>,
    x: &'a Channels<T>,
    y: &'a Channels<T>,
    indices: &'a Channels<i64>,
}

impl<T> CodegenAnchor for Max<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: PoolElement> Kernel<I> for Max<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let [depth, height, width] = self.pool.output.map(|size| size as usize);
        if width <= SHORT_ROW {
            for i in self.channels.clone() {
                let (x, y, indices) = (self.x.channel(i), self.y.channel(i), self.indices.channel(i));
                for [z, row] in rows(depth, height) {
                    for column in 0..width {
                        // SAFETY: elements of the channels.
                        unsafe { self.window([z, row, column], &x, (&y, &indices)) };
                    }
                }
            }
            return;
        }
        let padded = width + CHUNK;
        let (mut best, mut positions) = (Scratch::new::<T::Sum>(padded), Scratch::new::<u32>(padded));
        let mut staging = Scratch::new::<T>(padded);
        // SAFETY: the buffers take a row and another chunk. Zero bytes are elements of every type.
        unsafe {
            let row_state = RowState::<T> {
                best: best.as_mut_ptr(),
                positions: positions.as_mut_ptr(),
                staging: staging.as_mut_ptr(),
            };
            row_state.best.write_bytes(0, padded);
            row_state.staging.write_bytes(0, padded);
            let sizes = self.pool.input.map(|size| size as usize);
            let all = self.x.dense(sizes);
            for i in self.channels.clone() {
                let input = Input::of(self.x.channel(i), sizes, &all);
                let (y, indices) = (self.y.channel(i), self.indices.channel(i));
                for row in rows(depth, height) {
                    row_state.positions.write_bytes(0xff, padded);
                    self.row(row, &input, row_state);
                    self.finish(row, (&y, &indices), row_state);
                }
            }
        }
    }
}

/// A channel of the input.
struct Input<T> {
    channel: Channel<T>,
    /// The end of the readable elements that follow the pixels of the channel, if these are adjacent; otherwise 0.
    end: usize,
}

impl<T> Input<T> {
    /// `all` are the addresses of all channels, if they are contiguous: the next channel may be read too.
    #[inline(always)]
    fn of(channel: Channel<T>, sizes: [usize; 3], all: &Range<usize>) -> Self {
        let end = match channel.constant_step(sizes) {
            Some(1) if !all.is_empty() => all.end,
            Some(1) => channel.pixel([0; 3]).wrapping_add(sizes.iter().product()).addr(),
            _ => 0,
        };
        Input { channel, end }
    }

    /// Whether whole chunks for `count` outputs can be read.
    #[inline(always)]
    fn is_readable(&self, from: *const T, count: usize, step: usize) -> bool {
        let bytes = count.next_multiple_of(CHUNK) * step * size_of::<T>();
        self.end.checked_sub(from.addr()).is_some_and(|left| left >= bytes)
    }
}

/// Of a row of the output: the maxima so far, their kernel positions, and a buffer for gathered elements.
struct RowState<T: PoolElement> {
    best: *mut T::Sum,
    positions: *mut u32,
    staging: *mut T,
}

impl<T: PoolElement> Clone for RowState<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: PoolElement> Copy for RowState<T> {}

impl<T: PoolElement> Max<'_, T> {
    /// One window.
    ///
    /// # Safety
    /// - The channels have the pool's sizes.
    #[inline(always)]
    unsafe fn window(
        &self,
        output: [usize; 3],
        x: &Channel<T>,
        (values, indices): (&Channel<T>, &Channel<i64>),
    ) {
        let input = self.pool.input;
        let at = |d: usize, position: i64| {
            let index = source(self.pool, d, output[d] as i64, position);
            (0..input[d]).contains(&index).then_some(index)
        };
        let [planes, rows, columns] = &self.kernel_range;
        // What a window without an element has, as a row has that is not updated.
        let first = [0, 1, 2].map(|d| source(self.pool, d, output[d] as i64, self.kernel_range[d].start));
        let (mut best, mut index) = (None, (first[0] * input[1] + first[1]) * input[2] + first[2]);
        for z in planes.clone().filter_map(|position| at(0, position)) {
            for y in rows.clone().filter_map(|position| at(1, position)) {
                for column in columns.clone().filter_map(|position| at(2, position)) {
                    // SAFETY: an element of the channel.
                    let value = unsafe { *x.pixel([z, y, column].map(|index| index as usize)) }.widen();
                    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
                    let better = best.is_none_or(|best| value > best) | (value != value);
                    if better {
                        (best, index) = (Some(value), (z * input[1] + y) * input[2] + column);
                    }
                }
            }
        }
        // SAFETY: elements of the results.
        unsafe {
            *values.pixel(output) = T::narrow(best.unwrap_or(T::ZERO));
            *indices.pixel(output) = index;
        }
    }

    #[inline(always)]
    unsafe fn row(&self, [z, y]: [usize; 2], channel: &Input<T>, row_state: RowState<T>) {
        let input = self.pool.input;
        for kz in self.kernel_range[0].clone() {
            for ky in self.kernel_range[1].clone() {
                let from = [source(self.pool, 0, z as i64, kz), source(self.pool, 1, y as i64, ky)];
                if !(0..input[0]).contains(&from[0]) || !(0..input[1]).contains(&from[1]) {
                    continue;
                }
                let rows = self.kernel_range[1].end - self.kernel_range[1].start;
                let row =
                    ((kz - self.kernel_range[0].start) * rows + ky - self.kernel_range[1].start) as usize;
                // SAFETY: a row of the input.
                unsafe {
                    let from = from.map(|index| index as usize);
                    self.columns(from, channel, row * self.spans.len(), row_state);
                }
            }
        }
    }

    /// Updates the maxima by one row of the input, whose first kernel position has the number `first_position`.
    #[inline(always)]
    unsafe fn columns(
        &self,
        [z, y]: [usize; 2],
        x: &Input<T>,
        first_position: usize,
        row_state: RowState<T>,
    ) {
        // The stride of a single pixel may be any number; it is not used then.
        let step = (self.pool.stride[2] as isize).wrapping_mul(x.channel.strides[2]);
        for (position, span) in (first_position as u32..).zip(self.spans) {
            let (low, count) = (span.outputs.start, span.outputs.len());
            let from = x.channel.pixel([z, y, span.from]);
            // SAFETY: pixels inside the channel, and elements of the row.
            unsafe {
                let (best, positions) = (row_state.best.add(low), row_state.positions.add(low));
                match step {
                    1 if x.is_readable(from, count, 1) => {
                        update::<T, 1>(from, best, positions, count, position)
                    }
                    2 if x.is_readable(from, count, 2) => {
                        update::<T, 2>(from, best, positions, count, position)
                    }
                    _ => {
                        gather(from, step, row_state.staging, count);
                        update::<T, 1>(row_state.staging, best, positions, count, position);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(
        &self,
        [z, y]: [usize; 2],
        (values, indices): (&Channel<T>, &Channel<i64>),
        row_state: RowState<T>,
    ) {
        let ([_, height, width], count) = (self.pool.input, self.pool.output[2] as usize);
        let position = |d: usize| self.kernel_range[d].start;
        let [plane, row] =
            [(0, z), (1, y)].map(|(d, output)| source(self.pool, d, output as i64, position(d)));
        let first = (plane * height + row) * width + source(self.pool, 2, 0, position(2));
        // SAFETY: the elements of the row, and those of the results.
        unsafe {
            let steps = (values.strides[2], indices.strides[2]);
            let (values, indices) = (values.pixel([z, y, 0]), indices.pixel([z, y, 0]));
            match steps {
                (1, 1) => self.write(row_state, first, (values, 1), (indices, 1), count),
                (step, index_step) => {
                    self.write(row_state, first, (values, step), (indices, index_step), count)
                }
            }
        }
    }

    /// # Safety
    /// - The row is complete, and it and the results have `count` elements, those of the results at these steps.
    #[inline(always)]
    unsafe fn write(
        &self,
        row_state: RowState<T>,
        first: i64,
        (y, y_step): (*mut T, isize),
        (indices, index_step): (*mut i64, isize),
        count: usize,
    ) {
        let (offsets, none) = (self.offsets.as_ptr(), self.offsets.len() - 1);
        for x in 0..count {
            // SAFETY: by this function's condition; the last offset stands for no kernel position.
            unsafe {
                let offset = *offsets.add((*row_state.positions.add(x) as usize).min(none));
                *y.wrapping_offset(x as isize * y_step) = T::narrow(*row_state.best.add(x));
                *indices.wrapping_offset(x as isize * index_step) =
                    first + x as i64 * self.pool.stride[2] + offset;
            }
        }
    }
}

/// The maximum of each of `windows` and its index in a channel of `input` sizes; ties and NaN as in [`max`].
///
/// # Safety
/// - As [`max`]; no window is empty.
pub(super) unsafe fn adaptive_max<T: PoolElement>(
    windows: &[Vec<Window>; 3],
    input: [i64; 3],
    x: &Channels<T>,
    y: &Channels<T>,
    indices: &Channels<i64>,
) {
    let work = shape::product(&input) as usize;
    let (input, output) = (input.map(|size| size as usize), [0, 1, 2].map(|d| windows[d].len()));
    if let Some(strips) = strips(input, output, x, y, indices) {
        let along = [0, 1, 2].map(|d| scratch::collect(windows[d].iter().map(Reads::adjacent)));
        // SAFETY: the caller's conditions.
        return unsafe {
            max_lanes::max(&strips, &max_lanes::Windows { along, steps: [1; 3] }, input, x, y, indices)
        };
    }
    for_each_channel(x.count, work, |i| {
        let (x, y, indices) = (x.channel(i), y.channel(i), indices.channel(i));
        for [z, row] in rows(windows[0].len(), windows[1].len()) {
            for (column, window) in windows[2].iter().enumerate() {
                let part = [&windows[0][z], &windows[1][row], window];
                let output = [z, row, column];
                // SAFETY: elements of the channels.
                unsafe {
                    let index = index_of_max(&part, input, &x);
                    *y.pixel(output) = *x.pixel(unravelled(index, input));
                    *indices.pixel(output) = index as i64;
                }
            }
        }
    });
}

/// Splits a row-major index into plane, row and column.
fn unravelled(index: usize, [_, height, width]: [usize; 3]) -> [usize; 3] {
    [index / width / height, index / width % height, index % width]
}

/// The index of the maximum of one window.
///
/// # Safety
/// - `x` is readable in the window.
unsafe fn index_of_max<T: PoolElement>(
    [planes, rows, columns]: &[&Window; 3],
    [_, height, width]: [usize; 3],
    x: &Channel<T>,
) -> usize {
    let first = [planes.inside.start, rows.inside.start, columns.inside.start];
    let mut index = (first[0] * height + first[1]) * width + first[2];
    // SAFETY: the caller's condition, here and below.
    let mut best = unsafe { *x.pixel(first) }.widen();
    for z in planes.inside.clone() {
        for y in rows.inside.clone() {
            for column in columns.inside.clone() {
                // SAFETY: as above.
                let value = unsafe { *x.pixel([z, y, column]) }.widen();
                #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
                let better = value > best || value != value;
                if better {
                    (best, index) = (value, (z * height + y) * width + column);
                }
            }
        }
    }
    index
}

/// Each element of `gy` added to the element of `gx` that its index names, and zeros elsewhere. Indices out of range are ignored.
///
/// # Safety
/// - `gy` and `indices` are readable and of `output` sizes, `gx` is writable, of `input` sizes, and disjoint from them.
pub(super) unsafe fn max_backward<T: PoolElement<Sum = T>>(
    [input, output]: [[i64; 3]; 2],
    gy: &Channels<T>,
    indices: &Channels<i64>,
    gx: &Channels<T>,
) {
    let input_numel = shape::product(&input);
    let (input, [depth, height, width]) = (input.map(|size| size as usize), output.map(|size| size as usize));
    for_each_channel(gy.count, depth * height * width, |i| {
        let (gy, indices, gx) = (gy.channel(i), indices.channel(i), gx.channel(i));
        let step = gx.constant_step(input);
        // SAFETY: the caller's conditions.
        unsafe { gx.zero(input) };
        for [z, y] in rows(depth, height) {
            for x in 0..width {
                // SAFETY: elements of the channels; the index is checked.
                unsafe {
                    let index = *indices.pixel([z, y, x]);
                    if (0..input_numel).contains(&index) {
                        let to = match step {
                            Some(step) => gx.pixel([0; 3]).wrapping_offset(index as isize * step),
                            None => gx.pixel(unravelled(index as usize, input)),
                        };
                        *to = T::add(*to, *gy.pixel([z, y, x]));
                    }
                }
            }
        }
    });
}
