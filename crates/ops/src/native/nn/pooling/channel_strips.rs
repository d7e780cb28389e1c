//! Strips of channels, one in each lane: where the channels of images are adjacent, or rows are so short that a loop over each
//! takes longer to start than to run.
#![expect(unsafe_code, reason = "raw operands")]

use super::channels::{Channel, Channels, Layout, WORTH_A_THREAD, rows};
use crate::loops::transposed::transpose;
use crate::parallel::parallel_for;
use crate::scratch::Scratch;
use std::ops::Range;

/// Lanes that are computed at a time.
pub(super) const CHUNK: usize = 16;
/// Channels of a strip: four cache lines of f32.
pub(super) const LANES: usize = 64;
/// The largest number of pixels of input and output of which all lanes are gathered; of larger images a chunk is.
const MAX_PIXELS: usize = 512;
/// The largest number of pixels of which a chunk of lanes is gathered.
pub(super) const MAX_PIXELS_OF_CHUNK: usize = MAX_PIXELS * LANES / CHUNK;
/// Output rows up to this length are short.
pub(super) const SHORT_ROW: usize = 8;

/// How channels are divided into strips.
pub(super) struct Strips {
    count: usize,
    /// Channels that no strip extends across.
    group: usize,
    lanes: usize,
    /// Whether the lanes of all operands are adjacent in memory, so that nothing is gathered.
    pub(super) direct: bool,
}

impl Strips {
    /// For `count` channels of operands that have these layouts, of which up to `gathered` pixels of input and output are worth
    /// gathering; `None` where loops over rows suit them better.
    pub(super) fn of(
        count: usize,
        operands: &[Layout],
        [input, output]: [[usize; 3]; 2],
        gathered: usize,
    ) -> Option<Self> {
        let per_image = operands.first()?.per_image;
        if count < CHUNK {
            return None;
        }
        let is_regular = operands.iter().all(|layout| layout.step(&(0..count)).is_some());
        let group = if is_regular || per_image < CHUNK { count } else { per_image };
        let direct = operands.iter().all(|layout| layout.step(&(0..group)) == Some(1));
        let pixels = input.iter().product::<usize>().saturating_add(output.iter().product());
        let lanes = if direct || pixels <= MAX_PIXELS { LANES } else { CHUNK };
        let suits = direct || (output[2] <= SHORT_ROW && pixels <= gathered.min(MAX_PIXELS_OF_CHUNK));
        suits.then_some(Strips { count, group, lanes, direct })
    }

    /// The channels of a strip.
    fn channels(&self, strip: usize) -> Range<usize> {
        let each = self.group.div_ceil(self.lanes);
        let (first, start) = (strip / each * self.group, strip % each * self.lanes);
        first + start..first + self.group.min(start + self.lanes)
    }

    /// Calls `f` with some strips at a time, in parallel where channels of `work` elements are worth it.
    pub(super) fn for_each_part(
        &self,
        work: usize,
        f: impl Fn(&mut dyn Iterator<Item = Range<usize>>) + Sync,
    ) {
        let all = self.count / self.group * self.group.div_ceil(self.lanes);
        let grain = WORTH_A_THREAD / work.saturating_mul(self.lanes).max(1);
        parallel_for(0..all, grain.max(1), |part| f(&mut part.map(|strip| self.channels(strip))));
    }

    /// Memory for a strip of an operand of `sizes`; none where lanes are adjacent.
    pub(super) fn tile<T: Copy>(&self, sizes: [usize; 3]) -> Tile<T> {
        let numel = if self.direct { 0 } else { sizes.iter().product::<usize>() * self.lanes };
        let mut memory = Scratch::new::<T>(numel);
        let [_, height, width] = sizes;
        let pixel = self.lanes as isize;
        let row = pixel * width as isize;
        let first = memory.as_mut_ptr::<T>();
        // SAFETY: the memory has as many elements.
        unsafe { first.write_bytes(0, numel) };
        let lanes = Channel::new(first, [row * height as isize, row, pixel]);
        Tile { _memory: memory, sizes, lanes, direct: self.direct, pitch: self.lanes }
    }
}

/// The elements of the channels of a strip, which are adjacent.
///
/// - (inside) unless `direct`, `lanes` has `pitch` initialized elements for each pixel of `sizes`.
pub(super) struct Tile<T> {
    _memory: Scratch,
    sizes: [usize; 3],
    lanes: Channel<T>,
    direct: bool,
    pitch: usize,
}

impl<T: Copy> Tile<T> {
    /// Where the lanes of each pixel of the strip are.
    pub(super) fn lanes(&self, from: &Channels<T>, strip: &Range<usize>) -> Channel<T> {
        if self.direct {
            from.channel(strip.start)
        } else {
            Channel::new(self.lanes.pixel([0; 3]), self.lanes.strides)
        }
    }

    /// The address of the first channel and the step from one to the next, if transposing copies the strip.
    fn matrix(&self, channels: &Channels<T>, strip: &Range<usize>) -> Option<(*mut u8, isize)> {
        let (first, step) = (channels.channel(strip.start), channels.layout().step(strip)?);
        let is_dense = first.constant_step(self.sizes) == Some(1);
        is_dense.then(|| (first.pixel([0; 3]).cast(), step * size_of::<T>() as isize))
    }

    /// Reads a strip of channels, unless its lanes are adjacent.
    ///
    /// # Safety
    /// - The channels are readable, and of the tile's sizes. There are no more than lanes.
    pub(super) unsafe fn gather(&mut self, channels: &Channels<T>, strip: &Range<usize>) {
        let (pixels, size) = (self.sizes.iter().product(), size_of::<T>());
        if self.direct {
            return;
        }
        // SAFETY: this function's condition and (inside).
        unsafe {
            if let Some((from, step)) = self.matrix(channels, strip) {
                let to = self.lanes.pixel([0; 3]).cast();
                return transpose(from, step, [strip.len(), pixels], size, to, self.pitch * size);
            }
            for (lane, channel) in strip.clone().enumerate() {
                let channel = channels.channel(channel);
                for [z, y] in rows(self.sizes[0], self.sizes[1]) {
                    for x in 0..self.sizes[2] {
                        *self.lanes.pixel([z, y, x]).add(lane) = *channel.pixel([z, y, x]);
                    }
                }
            }
        }
    }

    /// Writes a strip of channels, unless its lanes are adjacent.
    ///
    /// # Safety
    /// - The channels are writable, and of the tile's sizes. There are no more than lanes.
    pub(super) unsafe fn scatter(&self, channels: &Channels<T>, strip: &Range<usize>) {
        let (pixels, size) = (self.sizes.iter().product(), size_of::<T>());
        if self.direct {
            return;
        }
        // SAFETY: this function's condition and (inside).
        unsafe {
            if let Some((to, step)) = self.matrix(channels, strip) {
                let (from, pitch) = (self.lanes.pixel([0; 3]).cast(), (self.pitch * size) as isize);
                return transpose(from, pitch, [pixels, strip.len()], size, to, step as usize);
            }
            for (lane, channel) in strip.clone().enumerate() {
                let channel = channels.channel(channel);
                for [z, y] in rows(self.sizes[0], self.sizes[1]) {
                    for x in 0..self.sizes[2] {
                        *channel.pixel([z, y, x]) = *self.lanes.pixel([z, y, x]).add(lane);
                    }
                }
            }
        }
    }
}

/// `count` elements of a pixel, with as many behind them as make whole chunks: a copy in `staging` unless they are `padded`.
///
/// # Safety
/// - `count` elements of `from` are readable, and whole chunks if `padded`. There are no more than [`LANES`].
#[inline(always)]
pub(super) unsafe fn whole_chunks<T: Copy>(
    from: *const T,
    count: usize,
    padded: bool,
    staging: &mut [T; LANES],
) -> *const T {
    if padded {
        return from;
    }
    // SAFETY: this function's condition.
    unsafe { staging.as_mut_ptr().copy_from_nonoverlapping(from, count) };
    staging.as_ptr()
}
