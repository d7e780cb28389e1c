//! The mean of each window: rows of the window are added up first, which vectorizes, then columns; and its gradient.
#![expect(unsafe_code, reason = "raw operands")]

use super::channel_strips::Strips;
use super::channels::{Channel, Channels, PoolElement, for_each_channel};
use super::mean::{Mean, inside};
use super::mean_lanes;
use crate::gemm::Scratch;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, dispatch};

/// Pixels of input and output up to which lanes are gathered: loops over the rows of larger images take no longer.
const WORTH_GATHERING: usize = 160;

/// The mean of each window.
///
/// # Safety
/// - `x` is readable as `mean` says, `y` writable, disjoint from it, and used by no other thread.
pub(super) unsafe fn mean<T: PoolElement>(mean: &Mean, x: &Channels<T>, y: &Channels<T>) {
    let (layouts, sizes) = ([x.layout(), y.layout()], [mean.input, mean.output()]);
    if let Some(strips) = Strips::of(x.count, &layouts, sizes, WORTH_GATHERING) {
        // SAFETY: the caller's conditions.
        return unsafe { mean_lanes::mean(&strips, mean, x, y) };
    }
    for_each_channel(x.count, mean.work(), |i| {
        // SAFETY: the caller's conditions; channels are apart.
        unsafe { dispatch(Forward { mean, x: x.channel(i), y: y.channel(i) }) }
    });
}

struct Forward<'a, T> {
    mean: &'a Mean,
    x: Channel<T>,
    y: Channel<T>,
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

impl<T> CodegenAnchor for Forward<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: PoolElement> Kernel<I> for Forward<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: elements of the channels; the buffer takes a row.
        unsafe {
            row_of_sums!(sums, T::Sum, self.mean.input[2]);
            for ([z, y], row) in self.mean.rows() {
                sums.fill(T::ZERO);
                for [from_z, from_y] in inside(row) {
                    match self.x.strides[2] {
                        1 => add_row(self.x.pixel([from_z, from_y, 0]), 1, sums),
                        step => add_row(self.x.pixel([from_z, from_y, 0]), step, sums),
                    }
                }
                for (x, column) in self.mean.windows[2].iter().enumerate() {
                    let sum = sums[column.inside.clone()].iter().fold(T::ZERO, |sum, s| T::add(sum, *s));
                    *self.y.pixel([z, y, x]) = T::narrow(T::mean(sum, self.mean.count(row, column)));
                }
            }
        }
    }
}

/// # Safety
/// - `from` points to as many elements as `sums` has, `step` apart.
#[inline(always)]
unsafe fn add_row<T: PoolElement>(from: *const T, step: isize, sums: &mut [T::Sum]) {
    for (i, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller's condition.
        *sum = T::add(*sum, unsafe { *from.wrapping_offset(step * i as isize) }.widen());
    }
}

/// Sets each element of `gx`, of `input` sizes, to the sum of the elements of `gy` whose windows contain it, each divided by its
/// count.
///
/// # Safety
/// - `gy` is readable as `mean` says, `gx` writable, disjoint from it, and used by no other thread.
pub(super) unsafe fn mean_backward<T: PoolElement<Sum = T>>(
    mean: &Mean,
    input: [i64; 3],
    gy: &Channels<T>,
    gx: &Channels<T>,
) {
    let input = input.map(|size| size as usize);
    for_each_channel(gy.count, mean.work(), |i| {
        // SAFETY: the caller's conditions; channels are apart.
        unsafe {
            gx.channel(i).zero(input);
            dispatch(Backward { mean, gy: gy.channel(i), gx: gx.channel(i) })
        }
    });
}

struct Backward<'a, T> {
    mean: &'a Mean,
    gy: Channel<T>,
    gx: Channel<T>,
}

impl<T> CodegenAnchor for Backward<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: PoolElement<Sum = T>> Kernel<I> for Backward<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: elements of the channels; the buffer takes a row.
        unsafe {
            row_of_sums!(shares, T, self.mean.input[2]);
            for ([z, y], row) in self.mean.rows() {
                shares.fill(T::ZERO);
                for (x, column) in self.mean.windows[2].iter().enumerate() {
                    let share = T::mean(*self.gy.pixel([z, y, x]), self.mean.count(row, column));
                    shares[column.inside.clone()].iter_mut().for_each(|s| *s = T::add(*s, share));
                }
                for [to_z, to_y] in inside(row) {
                    for (x, share) in shares.iter().enumerate() {
                        let to = self.gx.pixel([to_z, to_y, x]);
                        *to = T::add(*to, *share);
                    }
                }
            }
        }
    }
}
