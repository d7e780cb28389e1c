//! Vectors that are arrays: the integers of every instruction set, whose loops LLVM vectorizes, and all types of the scalar set.
#![expect(unsafe_code, reason = "loads and stores go through raw pointers")]

use std::mem::MaybeUninit;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::lane::{IntegerLane, Lane, OrderedLane};
use super::lanes::{Bits, Float, Integer, Mask, Number, Ordered, Vector};
use super::math::FloatElement;

/// `N` lanes of `T` in an array.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Array<T, const N: usize>([T; N]);

/// A truth value for each lane of an [`Array`].
#[derive(Clone, Copy, Debug)]
pub struct ArrayMask<const N: usize>([bool; N]);

/// Fills every lane from its index. A plain loop: LLVM vectorises it, and `std::array::from_fn` not always.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "the index reaches the operands, which the closure holds")]
fn each_lane<T, const N: usize>(mut lanes: [T; N], f: impl Fn(usize) -> T) -> Array<T, N> {
    for i in 0..N {
        lanes[i] = f(i);
    }
    Array(lanes)
}

impl<T: Copy, const N: usize> Array<T, N> {
    #[inline(always)]
    fn map<U: Lane>(self, f: impl Fn(T) -> U) -> Array<U, N> {
        each_lane(
            [U::ZERO; N],
            #[inline(always)]
            |i| f(self.0[i]),
        )
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        each_lane(
            self.0,
            #[inline(always)]
            |i| f(self.0[i], other.0[i]),
        )
    }

    #[inline(always)]
    fn compare(self, other: Self, f: impl Fn(&T, &T) -> bool) -> ArrayMask<N> {
        ArrayMask(
            each_lane(
                [false; N],
                #[inline(always)]
                |i| f(&self.0[i], &other.0[i]),
            )
            .0,
        )
    }
}

impl<T: Copy> Array<T, 1> {
    /// The only lane.
    #[inline(always)]
    pub(super) fn first_lane(self) -> T {
        self.0[0]
    }
}

impl<T: Lane, const N: usize> Vector for Array<T, N> {
    type Element = T;
    type Mask = ArrayMask<N>;
    const LANES: usize = N;

    #[inline(always)]
    fn splat(value: T) -> Self {
        Self([value; N])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: `from` is valid for reading `LANES` elements, which is the array.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const T, count: usize) -> Self {
        let mut array = [T::ZERO; N];
        // SAFETY: `from` is valid for reading `count` elements, and `count <= LANES`, the array's length.
        unsafe { array.as_mut_ptr().copy_from_nonoverlapping(from, count) };
        Self(array)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: `to` is valid for writing `LANES` elements, which is the array.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }
    #[inline(always)]
    unsafe fn store_partial(self, to: *mut T, count: usize) {
        // SAFETY: `to` is valid for writing `count` elements, and `count <= LANES`, the array's length.
        unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count) };
    }
    #[inline(always)]
    fn select(mask: ArrayMask<N>, yes: Self, no: Self) -> Self {
        each_lane(
            yes.0,
            #[inline(always)]
            |i| if mask.0[i] { yes.0[i] } else { no.0[i] },
        )
    }
    #[inline(always)]
    fn eq(self, other: Self) -> ArrayMask<N> {
        self.compare(other, T::eq)
    }
    #[inline(always)]
    fn ne(self, other: Self) -> ArrayMask<N> {
        self.compare(other, T::ne)
    }
}

impl<T: Lane, const N: usize> Number for Array<T, N>
where
    Self: Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>,
{
    #[inline(always)]
    fn zero() -> Self {
        Self([T::ZERO; N])
    }
    #[inline(always)]
    fn one() -> Self {
        Self([T::ONE; N])
    }
}

impl<T: OrderedLane, const N: usize> Ordered for Array<T, N> {
    #[inline(always)]
    fn lt(self, other: Self) -> ArrayMask<N> {
        self.compare(other, T::lt)
    }
    #[inline(always)]
    fn le(self, other: Self) -> ArrayMask<N> {
        self.compare(other, T::le)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map(T::abs)
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(
            other,
            #[inline(always)]
            |a, b| if a < b { a } else { b },
        )
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(
            other,
            #[inline(always)]
            |a, b| if a > b { a } else { b },
        )
    }
}

impl<T: IntegerLane, const N: usize> Integer for Array<T, N> {
    #[inline(always)]
    fn shl(self, by: Self) -> Self {
        self.zip(by, T::shl)
    }
    #[inline(always)]
    fn shr(self, by: Self) -> Self {
        self.zip(by, T::shr)
    }
    #[inline(always)]
    fn div_trunc(self, other: Self) -> Self {
        let mut all_near = true;
        for i in 0..N {
            all_near &= self.0[i].is_near() & other.0[i].is_near();
        }
        if all_near { self.zip(other, T::near_quotient) } else { self.zip(other, T::quotient) }
    }
    #[inline(always)]
    fn div_floor(self, other: Self) -> Self {
        self.with_quotients(other, T::floor)
    }
    #[inline(always)]
    fn remainder(self, other: Self) -> Self {
        self.with_quotients(other, T::floor_rest)
    }
    #[inline(always)]
    fn remainder_trunc(self, other: Self) -> Self {
        self.with_quotients(other, T::rest)
    }
    // The binary algorithm (Stein), of all lanes at a time: of two odd numbers, the larger one is replaced by the odd part of their
    // difference, until that is 0.
    #[inline(always)]
    fn gcd(self, other: Self) -> Self {
        let (first, second) = (self.map(T::odd_part), other.map(T::odd_part));
        let mut a = first.zip(
            second,
            #[inline(always)]
            |a, b| if a == T::ZERO { b } else { a },
        );
        let mut b = first.zip(
            second,
            #[inline(always)]
            |a, b| if a == T::ZERO { a } else { b },
        );
        while b.ne(Self([T::ZERO; N])).any() {
            (a, b) = (a.zip(b, T::smaller_odd), a.zip(b, T::odd_difference));
        }
        a.zip(self | other, T::times_twos_of)
    }
}

impl<T: IntegerLane, const N: usize> Array<T, N> {
    /// `f(self, other, quotient)` of each lane.
    #[inline(always)]
    fn with_quotients(self, other: Self, f: impl Fn(T, T, T) -> T) -> Self {
        let quotient = self.div_trunc(other);
        each_lane(
            self.0,
            #[inline(always)]
            |i| f(self.0[i], other.0[i], quotient.0[i]),
        )
    }
}

macro_rules! array_operators {
    ($($bound:ident $trait:ident $method:ident;)*) => {$(
        impl<T: $bound, const N: usize> $trait for Array<T, N> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.zip(other, T::$method)
            }
        }
    )*};
}

array_operators! {
    Lane Add add;
    Lane Sub sub;
    Lane Mul mul;
    IntegerLane BitAnd bitand;
    IntegerLane BitOr bitor;
    IntegerLane BitXor bitxor;
    FloatElement Div div;
}

impl<T: Lane, const N: usize> Neg for Array<T, N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(T::neg)
    }
}

impl<T: IntegerLane, const N: usize> Not for Array<T, N> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        self.map(T::not)
    }
}

macro_rules! array_float {
    ($($float:ident $signed:ident $unsigned:ident;)*) => {$(
        impl<const N: usize> Bits for Array<$signed, N> {
            #[inline(always)]
            fn splat(value: u64) -> Self { Self([value as $signed; N]) }
            #[inline(always)]
            fn shl(self, by: u32) -> Self { self.map(#[inline(always)] |x| x << by) }
            #[inline(always)]
            fn shr(self, by: u32) -> Self { self.map(#[inline(always)] |x| (x as $unsigned >> by) as $signed) }
        }

        impl<const N: usize> Float for Array<$float, N> {
            type Bits = Array<$signed, N>;

            #[inline(always)]
            fn to_bits(self) -> Self::Bits { self.map(#[inline(always)] |x| x.to_bits() as $signed) }
            #[inline(always)]
            fn from_bits(bits: Self::Bits) -> Self { bits.map(#[inline(always)] |x| $float::from_bits(x as $unsigned)) }
            #[inline(always)]
            fn bits_equal(a: Self::Bits, b: Self::Bits) -> ArrayMask<N> { a.eq(b) }
            #[inline(always)]
            fn sqrt(self) -> Self { self.map($float::sqrt) }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                each_lane(self.0, #[inline(always)] |i| self.0[i].mul_add(factor.0[i], term.0[i]))
            }
            #[inline(always)]
            fn floor(self) -> Self { self.map($float::floor) }
            #[inline(always)]
            fn ceil(self) -> Self { self.map($float::ceil) }
            #[inline(always)]
            fn round(self) -> Self { self.map($float::round_ties_even) }
            #[inline(always)]
            fn trunc(self) -> Self { self.map($float::trunc) }
            #[inline(always)]
            fn scale(self, n: Self) -> Self { super::math::scale_in_two_steps(self, n) }
            #[inline(always)]
            fn scale_floor(self, n: Self) -> Self { super::math::scale_floored(self, n) }
            #[inline(always)]
            fn exponent(self) -> Self { super::math::exponent_by_bits(self) }
            #[inline(always)]
            fn significand(self) -> Self { super::math::significand_by_bits(self) }
            #[inline(always)]
            fn slide_up(self, before: Self) -> Self {
                each_lane(self.0, #[inline(always)] |i| if i == 0 { before.0[N - 1] } else { self.0[i - 1] })
            }
            #[inline(always)]
            fn slide_down(self, after: Self) -> Self {
                each_lane(self.0, #[inline(always)] |i| if i + 1 == N { after.0[0] } else { self.0[i + 1] })
            }
            #[inline(always)]
            fn deinterleave(self, next: Self) -> (Self, Self) {
                (
                    each_lane(self.0, #[inline(always)] |i| if 2 * i < N { self.0[2 * i] } else { next.0[2 * i - N] }),
                    each_lane(self.0, #[inline(always)] |i| if 2 * i + 1 < N { self.0[2 * i + 1] } else { next.0[2 * i + 1 - N] }),
                )
            }
            #[inline(always)]
            fn interleave(self, odd: Self) -> (Self, Self) {
                let zipped = each_lane([[self.0[0]; 2]; N], #[inline(always)] |i| [self.0[i], odd.0[i]]).0;
                (
                    each_lane(self.0, #[inline(always)] |i| zipped[i / 2][i % 2]),
                    each_lane(self.0, #[inline(always)] |i| zipped[(N + i) / 2][(N + i) % 2]),
                )
            }
            #[inline(always)]
            fn look_up(table: &'static [$float; 16], index: Self::Bits) -> Self {
                index.map(#[inline(always)] |i| table[(i & 15) as usize])
            }
        }
    )*};
}

array_float! {
    f32 i32 u32;
    f64 i64 u64;
}

macro_rules! mask_operators {
    ($($trait:ident $method:ident;)*) => {$(
        impl<const N: usize> $trait for ArrayMask<N> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(each_lane([false; N], #[inline(always)] |i| self.0[i].$method(other.0[i])).0)
            }
        }
    )*};
}

mask_operators! {
    BitAnd bitand;
    BitOr bitor;
}

impl<const N: usize> Not for ArrayMask<N> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self(
            each_lane(
                [false; N],
                #[inline(always)]
                |i| !self.0[i],
            )
            .0,
        )
    }
}

impl<const N: usize> Mask for ArrayMask<N> {
    const LANES: usize = N;

    #[inline(always)]
    fn first(count: usize) -> Self {
        Self(
            each_lane(
                [false; N],
                #[inline(always)]
                |i| i < count,
            )
            .0,
        )
    }
    #[inline(always)]
    unsafe fn load_bool(from: *const bool, count: usize) -> Self {
        let from = from.cast::<u8>();
        if count == N {
            // Byte by byte: LLVM would hold a copy of eight bytes in one integer, and extract them from that.
            // SAFETY: `from` is valid for reading `count` bytes, and `i < N == count`.
            return Self(
                each_lane(
                    [false; N],
                    #[inline(always)]
                    |i| unsafe { from.add(i).read() != 0 },
                )
                .0,
            );
        }
        let mut bytes = [0u8; N];
        // SAFETY: `from` is valid for reading `count` bytes, and `count <= LANES`, the array's length.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(from, count) };
        Self(
            each_lane(
                [false; N],
                #[inline(always)]
                |i| bytes[i] != 0,
            )
            .0,
        )
    }
    #[inline(always)]
    unsafe fn store_bool(self, to: *mut bool, count: usize) {
        if count == N {
            for (i, &lane) in self.0.iter().enumerate() {
                // SAFETY: `to` is valid for writing `count` bytes, and `i < N == count`.
                unsafe { to.add(i).write(lane) };
            }
        } else {
            // SAFETY: `to` is valid for writing `count` bytes, and `count <= LANES`, the array's length.
            unsafe { to.copy_from_nonoverlapping(self.0.as_ptr(), count) };
        }
    }
    #[inline(always)]
    fn any(self) -> bool {
        self.0.iter().fold(
            false,
            #[inline(always)]
            |any, &lane| any | lane,
        )
    }
    #[inline(always)]
    fn all(self) -> bool {
        self.0.iter().fold(
            true,
            #[inline(always)]
            |all, &lane| all & lane,
        )
    }
}

/// Reads `count` values of memory that should hold `bool` as bytes, so that a byte other than 0 and 1 (memory that
/// came from outside) is true rather than undefined behaviour.
///
/// # Safety
///
/// - `from` is valid for reading `count` bytes, and `count` is at most `N`.
#[inline(always)]
pub(super) unsafe fn load_bools<const N: usize>(from: *const bool, count: usize) -> Array<bool, N> {
    // SAFETY: the same conditions.
    Array(unsafe { ArrayMask::<N>::load_bool(from, count) }.0)
}

/// An array of `N` elements whose first `count` come from memory and the others are zero bytes.
///
/// # Safety
///
/// - `from` is valid for reading `count` elements, `count` is at most `N`, and `T` may hold zero bytes.
#[inline(always)]
#[allow(dead_code, reason = "only the register types of some architectures need it")]
pub(super) unsafe fn padded<T: Copy, const N: usize>(from: *const T, count: usize) -> [T; N] {
    let mut array = MaybeUninit::<[T; N]>::zeroed();
    // SAFETY: `from` is valid for `count <= N` elements; zero bytes are a `T`, so the whole array is initialised.
    unsafe {
        array.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(from, count);
        array.assume_init()
    }
}
