//! The element types of scans: what runs along a row, and how neighbouring elements are read and written. Elements of f16 and bf16 are
//! converted in registers.
#![expect(unsafe_code, reason = "reads and writes the elements that the loops give")]

use crate::vectorized::{Convert, Isa, Lanes, Vector};
use half::{bf16, f16};

/// An element type that scans are computed for: sums where `SUM`, and else products.
pub(super) trait ScanElement: Convert + Copy {
    /// The type of the results before they are rounded.
    type Running: Copy;
    /// Whether sums are those of [groups](super::GROUP) of elements, added to the sum before each.
    const HAS_GROUPS: bool;
    /// Whether elements are converted to f32 first.
    const IS_CONVERTED: bool;
    /// The result of no elements.
    fn start<const SUM: bool>() -> Self::Running;
    /// The element as a term.
    fn to_running(self) -> Self::Running;
    /// The result with one term more.
    fn next<const SUM: bool>(running: Self::Running, x: Self::Running) -> Self::Running;
    /// The result as an element.
    fn value(running: Self::Running) -> Self;
}

macro_rules! scan_elements {
    ($($t:ident $running:ident $groups:literal |$a:ident, $b:ident| $sum:expr, $product:expr;)*) => {$(
        impl ScanElement for $t {
            type Running = $running;
            const HAS_GROUPS: bool = $groups;
            const IS_CONVERTED: bool = false;
            #[inline(always)]
            fn start<const SUM: bool>() -> $running {
                if SUM { 0 as $running } else { 1 as $running }
            }
            #[inline(always)]
            fn to_running(self) -> $running {
                self as $running
            }
            #[inline(always)]
            fn next<const SUM: bool>($a: $running, $b: $running) -> $running {
                if SUM { $sum } else { $product }
            }
            #[inline(always)]
            fn value(running: $running) -> Self {
                running as $t
            }
        }
    )*};
}

scan_elements! {
    i64 i64 false |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    f32 f64 true |a, b| a + b, a * b;
    f64 f64 false |a, b| a + b, a * b;
}

/// An element type whose neighbours are read and written together.
pub(super) trait LaneElement<I: Isa>: ScanElement {
    /// Reads `N` adjacent elements.
    ///
    /// # Safety
    /// - They are valid for reading.
    unsafe fn read<const N: usize>(from: *const Self) -> [Self::Running; N];

    /// Writes `N` adjacent elements.
    ///
    /// # Safety
    /// - They are valid for writing.
    unsafe fn write<const N: usize>(values: [Self::Running; N], to: *mut Self);
}

macro_rules! native_lanes {
    ($($t:ident)*) => {$(
        impl<I: Isa> LaneElement<I> for $t {
            #[inline(always)]
            unsafe fn read<const N: usize>(from: *const Self) -> [Self::Running; N] {
                // SAFETY: this function's condition.
                unsafe { from.cast::<[Self; N]>().read_unaligned() }.map(Self::to_running)
            }
            #[inline(always)]
            unsafe fn write<const N: usize>(values: [Self::Running; N], to: *mut Self) {
                // SAFETY: this function's condition.
                unsafe { to.cast::<[Self; N]>().write_unaligned(values.map(Self::value)) }
            }
        }
    )*};
}

native_lanes!(i64 f32 f64);

/// Lanes that hold any vector of f32.
const PADDED: usize = 16;

/// Elements are converted in whole vectors, whose other lanes are 0; a single one by itself where that takes few instructions.
macro_rules! half_lanes {
    ($($t:ident, $converts_one:literal;)*) => {$(
        impl ScanElement for $t {
            type Running = f64;
            const HAS_GROUPS: bool = true;
            const IS_CONVERTED: bool = true;
            #[inline(always)]
            fn start<const SUM: bool>() -> f64 {
                f32::start::<SUM>()
            }
            #[inline(always)]
            fn to_running(self) -> f64 {
                f64::from(self.convert::<f32>())
            }
            #[inline(always)]
            fn next<const SUM: bool>(running: f64, x: f64) -> f64 {
                f32::next::<SUM>(running, x)
            }
            #[inline(always)]
            fn value(running: f64) -> Self {
                f32::value(running).convert()
            }
        }

        impl<I: Isa> LaneElement<I> for $t
        where
            $t: Lanes<I, Vector: Vector<Element = f32>>,
        {
            #[inline(always)]
            unsafe fn read<const N: usize>(from: *const Self) -> [f64; N] {
                const { assert!(N <= PADDED) };
                // SAFETY: this function's condition.
                let x = unsafe { from.cast::<[Self; N]>().read_unaligned() };
                if N == 1 && $converts_one {
                    return x.map(Self::to_running);
                }
                let (mut padded, mut wide) = ([Self::from_bits(0); PADDED], [0f32; PADDED]);
                for (to, x) in padded.iter_mut().zip(x) {
                    *to = x;
                }
                for at in (0..N).step_by(<<Self as Lanes<I>>::Vector as Vector>::LANES) {
                    // SAFETY: a vector of both arrays.
                    unsafe {
                        <Self as Lanes<I>>::load(padded.as_ptr().add(at)).store(wide.as_mut_ptr().add(at));
                    }
                }
                let mut values = [0f64; N];
                for (to, wide) in values.iter_mut().zip(wide) {
                    *to = f64::from(wide);
                }
                values
            }
            #[inline(always)]
            unsafe fn write<const N: usize>(values: [f64; N], to: *mut Self) {
                const { assert!(N <= PADDED) };
                let (mut wide, mut padded) = ([0f32; PADDED], [Self::from_bits(0); PADDED]);
                for (wide, value) in wide.iter_mut().zip(values) {
                    *wide = f32::value(value);
                }
                if N == 1 && $converts_one {
                    padded[0] = wide[0].convert();
                } else {
                    for at in (0..N).step_by(<<Self as Lanes<I>>::Vector as Vector>::LANES) {
                        // SAFETY: a vector of both arrays.
                        unsafe {
                            let vector = Vector::load(wide.as_ptr().add(at));
                            <Self as Lanes<I>>::store(vector, padded.as_mut_ptr().add(at));
                        }
                    }
                }
                // SAFETY: this function's condition; there are as many elements.
                unsafe { to.cast::<[Self; N]>().write_unaligned(padded.as_ptr().cast::<[Self; N]>().read()) };
            }
        }
    )*};
}

half_lanes! {
    f16, false;
    bf16, true;
}
