//! Channels of images as raw memory, and the types in which their elements are compared and summed.
#![expect(unsafe_code, reason = "raw operands")]

use super::windows::Kind;
use crate::Tensor;
use crate::parallel::parallel_for;
use flambeau_core::Guarded;
use half::{bf16, f16};
use std::ops::{Mul, Range};

/// An element of pooling, the type in which it is compared and summed, and the conversions between them.
pub(in crate::native) trait PoolElement: Copy + Send + Sync {
    type Sum: Copy + Send + Sync + PartialOrd + Mul<Output = Self::Sum>;
    const ZERO: Self::Sum;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    /// The sum of two, which wraps for integers.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// `sum / count`, integers towards zero.
    fn mean(sum: Self::Sum, count: i64) -> Self::Sum;
}

/// `WIDTH` elements from `first` on, the last ones 0 where there are fewer.
#[inline(always)]
pub(in crate::native) fn wide<T: PoolElement, const WIDTH: usize>(
    elements: &[T],
    first: usize,
) -> [T::Sum; WIDTH] {
    let elements = &elements[first..];
    if let Some(whole) = elements.first_chunk::<WIDTH>() {
        return whole.map(
            #[inline(always)]
            |element| element.widen(),
        );
    }
    let mut padded = [T::ZERO; WIDTH];
    for (to, element) in padded.iter_mut().zip(elements) {
        *to = element.widen();
    }
    padded
}

macro_rules! pooled {
    ($($t:ty, $sum:ty, $zero:literal, $widen:expr, $narrow:expr, $add:expr, $mean:expr;)*) => {$(
        impl PoolElement for $t {
            type Sum = $sum;
            const ZERO: $sum = $zero;
            #[inline(always)]
            fn widen(self) -> $sum {
                let widen: fn($t) -> $sum = $widen;
                widen(self)
            }
            #[inline(always)]
            fn narrow(sum: $sum) -> $t {
                let narrow: fn($sum) -> $t = $narrow;
                narrow(sum)
            }
            #[inline(always)]
            fn add(a: $sum, b: $sum) -> $sum {
                let add: fn($sum, $sum) -> $sum = $add;
                add(a, b)
            }
            #[inline(always)]
            fn mean(sum: $sum, count: i64) -> $sum {
                let mean: fn($sum, i64) -> $sum = $mean;
                mean(sum, count)
            }
        }
    )*};
}
pooled! {
    f16, f32, 0.0, f16::to_f32, f16::from_f32, |a, b| a + b, |sum, count| sum / count as f32;
    bf16, f32, 0.0, bf16::to_f32, bf16::from_f32, |a, b| a + b, |sum, count| sum / count as f32;
    f32, f32, 0.0, |x| x, |x| x, |a, b| a + b, |sum, count| sum / count as f32;
    f64, f64, 0.0, |x| x, |x| x, |a, b| a + b, |sum, count| sum / count as f64;
    u8, u8, 0, |x| x, |x| x, u8::wrapping_add, |sum, count| (sum as i64).wrapping_div(count) as u8;
    i8, i8, 0, |x| x, |x| x, i8::wrapping_add, |sum, count| (sum as i64).wrapping_div(count) as i8;
    i16, i16, 0, |x| x, |x| x, i16::wrapping_add, |sum, count| (sum as i64).wrapping_div(count) as i16;
    i32, i32, 0, |x| x, |x| x, i32::wrapping_add, |sum, count| (sum as i64).wrapping_div(count) as i32;
    i64, i64, 0, |x| x, |x| x, i64::wrapping_add, |sum, count| sum.wrapping_div(count);
}

/// Images as channels.
pub(super) struct Channels<T> {
    ptr: *mut T,
    channels: usize,
    pub(super) count: usize,
    outer: [isize; 2],
    strides: [isize; 3],
}

// SAFETY: an address only; each access through it is justified where it is made.
unsafe impl<T: Sync> Sync for Channels<T> {}

impl<T> Channels<T> {
    /// The channels of a tensor of images, batched or unbatched.
    pub(super) fn of(guarded: Guarded<'_>, kind: Kind, tensor: &Tensor) -> Self {
        let view = tensor.strided_view();
        let (sizes, strides, first) = (view.sizes(), view.strides(), view.dim() - kind.dims);
        let (images, image) = if first == 1 { (1, 0) } else { (sizes[0], strides[0]) };
        let channels = sizes[first - 1] as usize;
        let along = |d: usize| (d + kind.dims).checked_sub(3).map_or(0, |dim| strides[first + dim]);
        Self {
            ptr: guarded.ptr(view).cast(),
            channels,
            count: images as usize * channels,
            outer: [image as isize, strides[first - 1] as isize],
            strides: std::array::from_fn(|d| along(d) as isize),
        }
    }

    /// Rows and columns exchanged.
    pub(super) fn exchanged(&self) -> Self {
        let [plane, row, pixel] = self.strides;
        Self { strides: [plane, pixel, row], ..*self }
    }

    /// The addresses of the elements of all channels of these sizes if they are contiguous, else an empty range.
    pub(super) fn dense(&self, sizes: [usize; 3]) -> Range<usize> {
        let (channel, pixels) = (self.channel(0), sizes.iter().product::<usize>());
        let follow = |count: usize, stride: isize, inner: usize| count <= 1 || stride == inner as isize;
        let channels = follow(self.channels, self.outer[1], pixels);
        let images = follow(self.count / self.channels.max(1), self.outer[0], self.channels * pixels);
        let is_dense = channels && images && channel.constant_step(sizes) == Some(1);
        let start = self.ptr.addr();
        start..if is_dense { start + self.count * pixels * size_of::<T>() } else { start }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout { per_image: self.channels, outer: self.outer }
    }

    pub(super) fn channel(&self, index: usize) -> Channel<T> {
        let (image, channel) = ((index / self.channels) as isize, (index % self.channels) as isize);
        let ptr = self.ptr.wrapping_offset(image * self.outer[0] + channel * self.outer[1]);
        Channel { ptr, strides: self.strides }
    }
}

/// The number of channels of an image, and the strides of images and channels.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) per_image: usize,
    outer: [isize; 2],
}

impl Layout {
    /// The step from one channel to the next, if it is the same for all of `part`, which is not empty.
    pub(super) fn step(self, part: &Range<usize>) -> Option<isize> {
        let (per_image, [image, channel]) = (self.per_image, self.outer);
        match () {
            () if per_image == 1 => Some(image),
            () if part.start / per_image == (part.end - 1) / per_image => Some(channel),
            () => (image == channel * per_image as isize).then_some(channel),
        }
    }
}

/// One channel of one image: planes, rows, pixels.
pub(super) struct Channel<T> {
    ptr: *mut T,
    pub(super) strides: [isize; 3],
}

impl<T> Channel<T> {
    pub(super) fn new(ptr: *mut T, strides: [isize; 3]) -> Self {
        Self { ptr, strides }
    }

    #[inline(always)]
    pub(super) fn pixel(&self, [z, y, x]: [usize; 3]) -> *mut T {
        let [plane, row, pixel] = self.strides;
        self.ptr.wrapping_offset(z as isize * plane + y as isize * row + x as isize * pixel)
    }
}

impl<T> Channel<T> {
    /// The stride of pixels, if it is constant across rows and planes too.
    pub(super) fn constant_step(&self, [depth, height, width]: [usize; 3]) -> Option<isize> {
        let [plane, row, pixel] = self.strides;
        let rows = height == 1 || row == pixel * width as isize;
        let planes = depth == 1 || plane == pixel * (width * height) as isize;
        (rows && planes).then_some(pixel)
    }
}

impl<T: PoolElement<Sum = T>> Channel<T> {
    /// Writes zeros.
    ///
    /// # Safety
    /// - A channel of these sizes is writable.
    pub(super) unsafe fn zero(&self, sizes: [usize; 3]) {
        let pixels = sizes.iter().product();
        for [z, y] in rows(sizes[0], sizes[1]) {
            // SAFETY: by this function's condition.
            unsafe {
                if self.constant_step(sizes) == Some(1) {
                    return std::slice::from_raw_parts_mut(self.ptr, pixels).fill(T::ZERO);
                }
                (0..sizes[2]).for_each(|x| *self.pixel([z, y, x]) = T::ZERO);
            }
        }
    }
}

/// The grain size, in elements.
pub(super) const WORTH_A_THREAD: usize = 1 << 14;

/// Calls `f` with the index of each channel, in parallel where `count` channels of `work` elements are worth it.
pub(super) fn for_each_channel(count: usize, work: usize, f: impl Fn(usize) + Sync) {
    for_each_part(count, work, |part| part.for_each(&f));
}

/// The same with the indices of several channels at a time, which share what `f` makes for them.
pub(super) fn for_each_part(count: usize, work: usize, f: impl Fn(Range<usize>) + Sync) {
    parallel_for(0..count, (WORTH_A_THREAD / work.max(1)).max(1), f);
}

/// The plane and row indices of all rows of a channel.
pub(super) fn rows(depth: usize, height: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..depth).flat_map(move |z| (0..height).map(move |y| [z, y]))
}
