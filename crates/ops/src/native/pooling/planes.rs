//! Pooling of one channel of one image after another, a row at a time, so that the inner loops are vector code.
#![expect(unsafe_code, reason = "raw operands")]

use super::windows::{Pool, Window};
use crate::Tensor;
use crate::gemm::Scratch;
use crate::parallel::parallel_for;
use crate::vectorized::{Isa, Kernel, Placed, dispatch};
use half::{bf16, f16};
use std::ops::{Add, AddAssign};

/// An element, what it is compared and summed in, and the way back.
pub(super) trait Pooled: Copy + Send + Sync {
    type Sum: Copy + Send + Sync + PartialOrd + Add<Output = Self::Sum> + AddAssign;
    const ZERO: Self::Sum;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    /// `sum / count`, integers towards zero.
    fn mean(sum: Self::Sum, count: i64) -> Self::Sum;
}

macro_rules! pooled {
    ($($t:ty, $sum:ty, $zero:literal, $widen:expr, $narrow:expr;)*) => {$(
        impl Pooled for $t {
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
            fn mean(sum: $sum, count: i64) -> $sum {
                sum / count as $sum
            }
        }
    )*};
}
pooled! {
    f16, f32, 0.0, f16::to_f32, f16::from_f32;
    bf16, f32, 0.0, bf16::to_f32, bf16::from_f32;
    f32, f32, 0.0, |x| x, |x| x;
    f64, f64, 0.0, |x| x, |x| x;
    u8, u8, 0, |x| x, |x| x;
    i8, i8, 0, |x| x, |x| x;
    i16, i16, 0, |x| x, |x| x;
    i32, i32, 0, |x| x, |x| x;
    i64, i64, 0, |x| x, |x| x;
}

/// Images as planes of channels.
pub(super) struct Planes<T> {
    at: *mut T,
    channels: usize,
    count: usize,
    outer: [isize; 2],
    strides: [isize; 2],
}

// SAFETY: it only carries an address; each use argues for itself.
unsafe impl<T: Sync> Sync for Planes<T> {}

impl<T> Planes<T> {
    /// Of a tensor of three or four dimensions.
    pub(super) fn of(tensor: &Tensor) -> Self {
        let (sizes, strides, d) = (tensor.sizes(), tensor.strides(), tensor.dim() - 2);
        let (images, image) = if d == 1 { (1, 0) } else { (sizes[0], strides[0]) };
        let channels = sizes[d - 1] as usize;
        Self {
            at: tensor.data_ptr().cast(),
            channels,
            count: images as usize * channels,
            outer: [image as isize, strides[d - 1] as isize],
            strides: [strides[d] as isize, strides[d + 1] as isize],
        }
    }

    fn plane(&self, index: usize) -> Plane<T> {
        let (image, channel) = ((index / self.channels) as isize, (index % self.channels) as isize);
        let at = self.at.wrapping_offset(image * self.outer[0] + channel * self.outer[1]);
        Plane { at, strides: self.strides }
    }
}

/// One channel of one image.
struct Plane<T> {
    at: *mut T,
    strides: [isize; 2],
}

impl<T> Plane<T> {
    #[inline(always)]
    fn pixel(&self, y: usize, x: usize) -> *mut T {
        self.at.wrapping_offset(y as isize * self.strides[0] + x as isize * self.strides[1])
    }
}

/// Elements worth a thread.
const WORTH_A_THREAD: usize = 1 << 14;

/// Runs `f` on each plane, those of `work` elements on several threads if there are enough.
fn each_plane(count: usize, work: usize, f: impl Fn(usize) + Sync) {
    parallel_for(0..count, (WORTH_A_THREAD / work.max(1)).max(1), |part| part.for_each(&f));
}

/// No place in the kernel yet.
const UNSET: u32 = u32::MAX;

/// The greatest of each window, the first of equals, and where it is in its plane; NaN is greater than all, the last of
/// them counts.
///
/// # Safety
/// - `x` is readable as `pool` says, `y` and `at` writable, disjoint from it and from each other; nobody else uses them.
pub(super) unsafe fn max<T: Pooled>(pool: &Pool, x: &Planes<T>, y: &Planes<T>, at: &Planes<i64>) {
    let taps = |d: usize| (pool.taps(d).end - pool.taps(d).start).max(0) as usize;
    let work = (pool.output[0] * pool.output[1]) as usize * taps(0) * taps(1);
    each_plane(x.count, work, |i| {
        // SAFETY: the caller's conditions; planes are apart.
        unsafe { dispatch(MaxPlane { pool, x: x.plane(i), y: y.plane(i), at: at.plane(i) }) }
    });
}

struct MaxPlane<'a, T> {
    pool: &'a Pool,
    x: Plane<T>,
    y: Plane<T>,
    at: Plane<i64>,
}

impl<T> Placed for MaxPlane<'_, T> {
    type Home = Self;
}

impl<I: Isa, T: Pooled> Kernel<I> for MaxPlane<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let width = self.pool.output[1] as usize;
        let (mut best, mut taps) = (Scratch::new::<T::Sum>(width), Scratch::new::<u32>(width));
        // SAFETY: the buffers have room for a row, and are written before they are read.
        unsafe {
            let best = best.as_mut_ptr::<T::Sum>();
            best.write_bytes(0, width);
            let best = std::slice::from_raw_parts_mut(best, width);
            let taps = taps.as_mut_ptr::<u32>();
            taps.write_bytes(0xff, width);
            let taps = std::slice::from_raw_parts_mut(taps, width);
            for y in 0..self.pool.output[0] as usize {
                taps.fill(UNSET);
                self.row(y, best, taps);
                self.finish(y, best, taps);
            }
        }
    }
}

impl<T: Pooled> MaxPlane<'_, T> {
    fn source(&self, d: usize, output: usize, tap: i64) -> i64 {
        output as i64 * self.pool.stride[d] - self.pool.padding[d] + tap * self.pool.dilation[d]
    }

    #[inline(always)]
    unsafe fn row(&self, y: usize, best: &mut [T::Sum], taps: &mut [u32]) {
        let p = self.pool;
        let (rows, columns) = (p.taps(0), p.taps(1));
        for ky in rows.clone() {
            let from_y = self.source(0, y, ky);
            if !(0..p.input[0]).contains(&from_y) {
                continue;
            }
            for kx in columns.clone() {
                // The first output places that read at or after the beginning, and at or after the end.
                let first = |bound: i64| {
                    let ahead = bound - self.source(1, 0, kx);
                    let reached = if ahead <= 0 { 0 } else { (ahead - 1) / p.stride[1] + 1 };
                    reached.min(p.output[1]) as usize
                };
                let (low, high) = (first(0), first(p.input[1]));
                if low >= high {
                    continue;
                }
                let from = self.x.pixel(from_y as usize, self.source(1, low, kx) as usize);
                let tap = ((ky - rows.start) * (columns.end - columns.start) + kx - columns.start) as u32;
                let (best, taps) = (&mut best[low..high], &mut taps[low..high]);
                // SAFETY: pixels inside the plane. A step known to the compiler becomes shuffles.
                unsafe {
                    match p.stride[1] as isize * self.x.strides[1] {
                        1 => take(from, 1, best, taps, tap),
                        2 => take(from, 2, best, taps, tap),
                        step => take(from, step, best, taps, tap),
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn finish(&self, y: usize, best: &[T::Sum], taps: &[u32]) {
        let (rows, columns) = (self.pool.taps(0), self.pool.taps(1));
        let wide = columns.end - columns.start;
        for (x, (best, tap)) in best.iter().zip(taps).enumerate() {
            let (ky, kx) = (rows.start + i64::from(*tap) / wide, columns.start + i64::from(*tap) % wide);
            let index = self.source(0, y, ky) * self.pool.input[1] + self.source(1, x, kx);
            // SAFETY: the output's place.
            unsafe {
                *self.y.pixel(y, x) = T::narrow(*best);
                *self.at.pixel(y, x) = index;
            }
        }
    }
}

/// Takes the elements that are greater than the best so far.
///
/// # Safety
/// - `from` leads to as many elements as `best` and `taps` have, apart by `step`.
#[inline(always)]
unsafe fn take<T: Pooled>(from: *const T, step: isize, best: &mut [T::Sum], taps: &mut [u32], tap: u32) {
    let count = best.len().min(taps.len());
    for i in 0..count {
        // SAFETY: the caller's condition.
        let value = unsafe { *from.wrapping_offset(step * i as isize) }.widen();
        #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
        let better = (taps[i] == UNSET) | (value > best[i]) | (value != value);
        best[i] = if better { value } else { best[i] };
        taps[i] = if better { tap } else { taps[i] };
    }
}

/// Adds each element of `gy` to the place in `gx` that it came from; places outside are left out.
///
/// # Safety
/// - `gy` and `at` are readable and of `output` sizes, `gx` is writable, of `input` sizes, and disjoint from them.
pub(super) unsafe fn max_backward<T: Pooled + AddAssign>(
    [input, output]: [[i64; 2]; 2],
    gy: &Planes<T>,
    at: &Planes<i64>,
    gx: &Planes<T>,
) {
    let (width, places) = (input[1] as usize, input[0] * input[1]);
    each_plane(gy.count, (output[0] * output[1]) as usize, |i| {
        let (gy, at, gx) = (gy.plane(i), at.plane(i), gx.plane(i));
        for y in 0..output[0] as usize {
            for x in 0..output[1] as usize {
                // SAFETY: places inside the planes; the index is checked.
                unsafe {
                    let index = *at.pixel(y, x);
                    if (0..places).contains(&index) {
                        *gx.pixel(index as usize / width, index as usize % width) += *gy.pixel(y, x);
                    }
                }
            }
        }
    });
}

/// Windows of both dimensions, and the number that divides every sum if it is given.
pub(super) struct Mean {
    pub(super) rows: Vec<Window>,
    pub(super) columns: Vec<Window>,
    pub(super) divisor: Option<i64>,
    /// Of the input.
    pub(super) width: usize,
}

impl Mean {
    fn count(&self, row: &Window, column: &Window) -> i64 {
        self.divisor.unwrap_or_else(|| row.counted.saturating_mul(column.counted))
    }

    fn work(&self) -> usize {
        self.rows.iter().map(|r| r.inside.len()).sum::<usize>() * self.width
    }
}

/// The mean of each window: rows are added up first, then columns.
///
/// # Safety
/// - `x` is readable as `mean` says, `y` writable and disjoint from it; nobody else uses them.
pub(super) unsafe fn mean<T: Pooled>(mean: &Mean, x: &Planes<T>, y: &Planes<T>) {
    each_plane(x.count, mean.work(), |i| {
        // SAFETY: the caller's conditions; planes are apart.
        unsafe { dispatch(MeanPlane { mean, x: x.plane(i), y: y.plane(i) }) }
    });
}

struct MeanPlane<'a, T> {
    mean: &'a Mean,
    x: Plane<T>,
    y: Plane<T>,
}

/// A buffer of one row of sums.
macro_rules! row_of_sums {
    ($name:ident, $t:ty, $width:expr) => {
        let mut buffer = Scratch::new::<$t>($width);
        let $name = buffer.as_mut_ptr::<$t>();
        $name.write_bytes(0, $width);
        let $name = std::slice::from_raw_parts_mut($name, $width);
    };
}

impl<T> Placed for MeanPlane<'_, T> {
    type Home = Self;
}

impl<I: Isa, T: Pooled> Kernel<I> for MeanPlane<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: places inside the planes; the buffer has room for a row.
        unsafe {
            row_of_sums!(sums, T::Sum, self.mean.width);
            for (y, row) in self.mean.rows.iter().enumerate() {
                sums.fill(T::ZERO);
                for from in row.inside.clone() {
                    match self.x.strides[1] {
                        1 => add_row(self.x.pixel(from, 0), 1, sums),
                        step => add_row(self.x.pixel(from, 0), step, sums),
                    }
                }
                for (x, column) in self.mean.columns.iter().enumerate() {
                    let sum = sums[column.inside.clone()].iter().fold(T::ZERO, |sum, s| sum + *s);
                    *self.y.pixel(y, x) = T::narrow(T::mean(sum, self.mean.count(row, column)));
                }
            }
        }
    }
}

/// # Safety
/// - `from` leads to as many elements as `sums` has, apart by `step`.
#[inline(always)]
unsafe fn add_row<T: Pooled>(from: *const T, step: isize, sums: &mut [T::Sum]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's condition.
        *sum += unsafe { *from.wrapping_offset(step * i as isize) }.widen();
    }
}

/// Adds each element of `gy`, divided as its mean was, to all places of its window in `gx`.
///
/// # Safety
/// - `gy` is readable as `mean` says, `gx` writable and disjoint from it; nobody else uses them.
pub(super) unsafe fn mean_backward<T: Pooled<Sum = T> + AddAssign>(
    mean: &Mean,
    gy: &Planes<T>,
    gx: &Planes<T>,
) {
    each_plane(gy.count, mean.work(), |i| {
        // SAFETY: the caller's conditions; planes are apart.
        unsafe { dispatch(MeanBackward { mean, gy: gy.plane(i), gx: gx.plane(i) }) }
    });
}

struct MeanBackward<'a, T> {
    mean: &'a Mean,
    gy: Plane<T>,
    gx: Plane<T>,
}

impl<T> Placed for MeanBackward<'_, T> {
    type Home = Self;
}

impl<I: Isa, T: Pooled<Sum = T> + AddAssign> Kernel<I> for MeanBackward<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: places inside the planes; the buffer has room for a row.
        unsafe {
            row_of_sums!(shares, T, self.mean.width);
            for (y, row) in self.mean.rows.iter().enumerate() {
                shares.fill(T::ZERO);
                for (x, column) in self.mean.columns.iter().enumerate() {
                    let share = T::mean(*self.gy.pixel(y, x), self.mean.count(row, column));
                    shares[column.inside.clone()].iter_mut().for_each(|s| *s += share);
                }
                for to in row.inside.clone() {
                    for (x, share) in shares.iter().enumerate() {
                        *self.gx.pixel(to, x) += *share;
                    }
                }
            }
        }
    }
}
