//! Instructions on integers and on bits.

use super::lanes::{LANES, Lane, RegisterFile, Row, each, mask_of, pairs};
use crate::instruction::{Carry, Comparison, Count, IntBinary, IntType, IntUnary, Part, Reg};

/// An integer type as registers hold it.
pub(crate) trait Int: Copy + Ord {
    type Lane: Lane;
    const BITS: u32;
    fn of(lane: Self::Lane) -> Self;
    fn lane(self) -> Self::Lane;
    fn upcast(self) -> i128;
    fn truncated(value: i128) -> Self;
    fn unary(op: IntUnary, a: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn bits(op: IntBinary, a: Self, b: Self) -> Self;
    fn shift(self, by: u32, is_left: bool) -> Self;
    fn count(self, op: Count) -> u32;
}

macro_rules! ints {
    ($($int:ident $unsigned:ident $lane:ident;)*) => {$(
        impl Int for $int {
            type Lane = $lane;
            const BITS: u32 = $int::BITS;

            #[inline(always)]
            fn of(lane: $lane) -> Self {
                lane as $int
            }

            #[inline(always)]
            fn lane(self) -> $lane {
                $lane::from(self as $unsigned)
            }

            #[inline(always)]
            fn upcast(self) -> i128 {
                i128::from(self)
            }

            #[inline(always)]
            fn truncated(value: i128) -> Self {
                value as $int
            }

            #[inline(always)]
            fn unary(op: IntUnary, a: Self) -> Self {
                match op {
                    IntUnary::Neg => a.wrapping_neg(),
                    IntUnary::Abs => if (a as i128) < 0 { a.wrapping_neg() } else { a },
                    IntUnary::Not => !a,
                    IntUnary::LogicalNot => $int::from(a == 0),
                    IntUnary::ReverseBits => a.reverse_bits(),
                }
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            /// PTX leaves the quotient by zero open; devices give all ones.
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }

            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }

            #[inline(always)]
            fn bits(op: IntBinary, a: Self, b: Self) -> Self {
                match op {
                    IntBinary::And => a & b,
                    IntBinary::Or => a | b,
                    _ => a ^ b,
                }
            }

            /// Shifts by more than the width give zeros, or copies of the sign.
            #[inline(always)]
            fn shift(self, by: u32, is_left: bool) -> Self {
                let last = $int::BITS - 1;
                let all = if is_left || (self as i128) >= 0 { 0 } else { !0 };
                let by_last = by.min(last);
                let shifted = if is_left { self << by_last } else { self >> by_last };
                if by > last { all } else { shifted }
            }

            #[inline(always)]
            fn count(self, op: Count) -> u32 {
                let flipped = if (self as i128) < 0 { !self } else { self };
                match op {
                    Count::Ones => self.count_ones(),
                    Count::LeadingZeros => self.leading_zeros(),
                    Count::Highest if flipped == 0 => u32::MAX,
                    Count::Highest => $int::BITS - 1 - flipped.leading_zeros(),
                }
            }
        }
    )*};
}

ints! {
    u16 u16 u32;
    i16 u16 u32;
    u32 u32 u32;
    i32 u32 u32;
    u64 u64 u64;
    i64 u64 u64;
}

/// Calls a generic function with the type as its parameter.
macro_rules! with_int {
    ($ty:expr, $name:ident::<T>($($arg:expr),*)) => {
        match $ty {
            IntType::U16 => $name::<u16>($($arg),*),
            IntType::S16 => $name::<i16>($($arg),*),
            IntType::U32 => $name::<u32>($($arg),*),
            IntType::S32 => $name::<i32>($($arg),*),
            IntType::U64 => $name::<u64>($($arg),*),
            IntType::S64 => $name::<i64>($($arg),*),
        }
    };
}

impl RegisterFile {
    #[inline(always)]
    pub(super) fn int_unary(&mut self, op: IntUnary, ty: IntType, to: Reg, a: Reg, mask: u32) {
        with_int!(ty, unary::<T>(self, op, to, a, mask));
    }

    #[inline(always)]
    pub(super) fn int_binary(&mut self, op: IntBinary, ty: IntType, to: Reg, [a, b]: [Reg; 2], mask: u32) {
        with_int!(ty, binary::<T>(self, op, to, a, b, mask));
    }

    #[inline(always)]
    pub(super) fn shift(&mut self, left: bool, ty: IntType, to: Reg, [a, by]: [Reg; 2], mask: u32) {
        with_int!(ty, shift::<T>(self, left, to, a, by, mask));
    }

    pub(super) fn count(&mut self, op: Count, ty: IntType, to: Reg, a: Reg, mask: u32) {
        with_int!(ty, count::<T>(self, op, to, a, mask));
    }

    #[inline(always)]
    pub(super) fn compare_int(&self, op: Comparison, ty: IntType, a: Reg, b: Reg) -> u32 {
        with_int!(ty, compare::<T>(self, op, a, b))
    }

    #[inline(always)]
    pub(super) fn mul_wide(&mut self, ty: IntType, to: Reg, [a, b]: [Reg; 2], mask: u32) {
        let (x, y) = (*self.get::<u32>(a), *self.get::<u32>(b));
        match ty {
            IntType::S32 => {
                let wide = |x: u32| i64::from(x as i32);
                self.put(to, mask, pairs(&x, &y, |x, y| (wide(x) * wide(y)) as u64));
            }
            IntType::S16 => {
                let wide = |x: u32| i32::from(x as i16);
                self.put(to, mask, pairs(&x, &y, |x, y| (wide(x) * wide(y)) as u32));
            }
            IntType::U16 => self.put(to, mask, pairs(&x, &y, |x, y| (x & 0xffff) * (y & 0xffff))),
            _ => self.put(to, mask, pairs(&x, &y, |x, y| u64::from(x) * u64::from(y))),
        }
    }

    pub(super) fn mad(&mut self, part: Part, ty: IntType, to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
        match part {
            Part::Low => with_int!(ty, mad_low::<T>(self, to, [a, b, c], mask)),
            Part::High => with_int!(ty, mad_high::<T>(self, to, [a, b, c], mask)),
            Part::Wide => with_int!(ty, mad_wide::<T>(self, to, [a, b, c], mask)),
        }
    }

    /// An addition, subtraction or multiply-add of 32 or 64 bits with the carry of each lane.
    pub(super) fn carry(
        &mut self,
        op: Carry,
        (wide, takes, gives): (bool, bool, bool),
        to: Reg,
        [a, b, c]: [Reg; 3],
        mask: u32,
    ) {
        let bits = if wide { 64 } else { 32 };
        let rows = [a, b, c].map(|register| self.bits(register, wide));
        let (mut result, mut carries) = ([0u64; LANES], 0u32);
        for i in 0..LANES {
            let [x, y, z] = [0, 1, 2].map(|k| u128::from(rows[k][i]));
            let carry = u128::from(takes && self.carry >> i & 1 != 0);
            let (first, second) = match op {
                Carry::Add | Carry::Sub => (x, y),
                Carry::MadLow => ((x * y) & ((1 << bits) - 1), z),
                Carry::MadHigh => ((x * y) >> bits, z),
            };
            // What is borrowed shows as ones above.
            let sum = if op == Carry::Sub {
                first.wrapping_sub(second).wrapping_sub(carry)
            } else {
                first + second + carry
            };
            result[i] = sum as u64;
            carries |= u32::from(sum >> bits & 1 != 0) << i;
        }
        self.put_bits(to, wide, mask, result);
        if gives {
            self.carry = (self.carry & !mask) | (carries & mask);
        }
    }

    pub(super) fn add_saturated(&mut self, is_sub: bool, to: Reg, [a, b]: [Reg; 2], mask: u32) {
        let of = |x: u32, y: u32| match is_sub {
            true => (x as i32).saturating_sub(y as i32) as u32,
            false => (x as i32).saturating_add(y as i32) as u32,
        };
        let value = pairs(self.get::<u32>(a), self.get::<u32>(b), of);
        self.put(to, mask, value);
    }

    /// `bfe`: bits from `start` on, extended by the highest of them or of the operand.
    pub(super) fn bit_field_extract(
        &mut self,
        ty: IntType,
        to: Reg,
        [a, start, length]: [Reg; 3],
        mask: u32,
    ) {
        let (is_wide, is_signed) =
            (matches!(ty, IntType::U64 | IntType::S64), matches!(ty, IntType::S32 | IntType::S64));
        let bits = if is_wide { 64u32 } else { 32 };
        let (values, starts, lengths) =
            (self.bits(a, is_wide), *self.get::<u32>(start), *self.get::<u32>(length));
        let extract = |i: usize| {
            let (start, length) = (starts[i] & 255, lengths[i] & 255);
            let last = (start + length).saturating_sub(1).min(bits - 1);
            let sign = is_signed && length > 0 && values[i] >> last & 1 != 0;
            let field = if start < bits { values[i] >> start } else { 0 };
            let kept = length.min(bits.saturating_sub(start));
            let low = if kept >= 64 { u64::MAX } else { (1u64 << kept) - 1 };
            if sign { field & low | !low } else { field & low }
        };
        self.put_bits(to, is_wide, mask, std::array::from_fn(extract));
    }

    /// `bfi`: the low bits of `a` stored in `b` from `start` on.
    pub(super) fn bit_field_insert(
        &mut self,
        wide: bool,
        to: Reg,
        [a, b, start, length]: [Reg; 4],
        mask: u32,
    ) {
        let bits = if wide { 64u32 } else { 32 };
        let (x, y) = (self.bits(a, wide), self.bits(b, wide));
        let (starts, lengths) = (*self.get::<u32>(start), *self.get::<u32>(length));
        let insert = |i: usize| {
            let (start, length) = (starts[i] & 255, lengths[i] & 255);
            if start >= bits {
                return y[i];
            }
            let length = length.min(bits - start);
            let low = if length >= 64 { u64::MAX } else { (1u64 << length) - 1 };
            y[i] & !(low << start) | (x[i] & low) << start
        };
        self.put_bits(to, wide, mask, std::array::from_fn(insert));
    }

    /// `prmt`: four bytes chosen among the eight of `a` and `b`.
    pub(super) fn permute(&mut self, to: Reg, [a, b, selector]: [Reg; 3], mask: u32) {
        let (x, y, s) = (*self.get::<u32>(a), *self.get::<u32>(b), *self.get::<u32>(selector));
        let permuted = |i: usize| {
            let bytes = u64::from(x[i]) | u64::from(y[i]) << 32;
            (0..4).fold(0u32, |all, k| {
                let choice = s[i] >> (4 * k) & 15;
                let byte = (bytes >> (8 * (choice & 7))) as u8;
                let byte = if choice & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
                all | u32::from(byte) << (8 * k)
            })
        };
        self.put(to, mask, std::array::from_fn(permuted));
    }

    /// `lop3`: the bit of the table that the bits of the operands number.
    pub(super) fn logic3(&mut self, table: u8, to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
        let (x, y, z) = (*self.get::<u32>(a), *self.get::<u32>(b), *self.get::<u32>(c));
        let of = |i: usize| {
            (0..8u32).filter(|row| table >> row & 1 != 0).fold(0u32, |all, row| {
                let term = |value: u32, bit: u32| if row >> bit & 1 != 0 { value } else { !value };
                all | term(x[i], 2) & term(y[i], 1) & term(z[i], 0)
            })
        };
        self.put(to, mask, std::array::from_fn(of));
    }

    /// `shf`: a shift of the 64 bits of `b` and `a`, of which 32 are the result.
    pub(super) fn funnel_shift(
        &mut self,
        (left, wraps): (bool, bool),
        to: Reg,
        [a, b, by]: [Reg; 3],
        mask: u32,
    ) {
        let (x, y, n) = (*self.get::<u32>(a), *self.get::<u32>(b), *self.get::<u32>(by));
        let of = |i: usize| {
            let both = u64::from(y[i]) << 32 | u64::from(x[i]);
            let n = if wraps { n[i] & 31 } else { n[i].min(32) };
            if left { (both << n >> 32) as u32 } else { (both >> n) as u32 }
        };
        self.put(to, mask, std::array::from_fn(of));
    }
}

#[inline(always)]
fn unary<T: Int>(file: &mut RegisterFile, op: IntUnary, to: Reg, a: Reg, mask: u32) {
    let value = each(file.get::<T::Lane>(a), |x| T::unary(op, T::of(x)).lane());
    file.put(to, mask, value);
}

#[inline(always)]
fn binary<T: Int>(file: &mut RegisterFile, op: IntBinary, to: Reg, a: Reg, b: Reg, mask: u32) {
    let (x, y) = (file.get::<T::Lane>(a), file.get::<T::Lane>(b));
    let of = |f: fn(T, T) -> T| move |x: T::Lane, y: T::Lane| f(T::of(x), T::of(y)).lane();
    let value: Row<T::Lane> = match op {
        IntBinary::Add => pairs(x, y, |x, y| T::of(x).add(T::of(y)).lane()),
        IntBinary::Sub => pairs(x, y, |x, y| T::of(x).sub(T::of(y)).lane()),
        IntBinary::MulLow => pairs(x, y, |x, y| T::of(x).mul(T::of(y)).lane()),
        IntBinary::MulHigh => pairs(x, y, |x, y| {
            T::truncated(T::of(x).upcast().wrapping_mul(T::of(y).upcast()) >> T::BITS).lane()
        }),
        IntBinary::Div => pairs(x, y, of(T::div)),
        IntBinary::Rem => pairs(x, y, of(T::rem)),
        IntBinary::Min => pairs(x, y, |x, y| T::of(x).min(T::of(y)).lane()),
        IntBinary::Max => pairs(x, y, |x, y| T::of(x).max(T::of(y)).lane()),
        IntBinary::And => pairs(x, y, |x, y| T::bits(IntBinary::And, T::of(x), T::of(y)).lane()),
        IntBinary::Or => pairs(x, y, |x, y| T::bits(IntBinary::Or, T::of(x), T::of(y)).lane()),
        IntBinary::Xor => pairs(x, y, |x, y| T::bits(IntBinary::Xor, T::of(x), T::of(y)).lane()),
    };
    file.put(to, mask, value);
}

#[inline(always)]
fn shift<T: Int>(file: &mut RegisterFile, left: bool, to: Reg, a: Reg, by: Reg, mask: u32) {
    let (x, n) = (file.get::<T::Lane>(a), file.get::<u32>(by));
    let value = match left {
        true => pairs(x, n, |x, n| T::of(x).shift(n, true).lane()),
        false => pairs(x, n, |x, n| T::of(x).shift(n, false).lane()),
    };
    file.put(to, mask, value);
}

fn count<T: Int>(file: &mut RegisterFile, op: Count, to: Reg, a: Reg, mask: u32) {
    let value = each(file.get::<T::Lane>(a), |x| T::of(x).count(op));
    file.put(to, mask, value);
}

#[inline(always)]
fn compare<T: Int>(file: &RegisterFile, op: Comparison, a: Reg, b: Reg) -> u32 {
    let (x, y) = (file.get::<T::Lane>(a), file.get::<T::Lane>(b));
    match op {
        Comparison::Eq | Comparison::EqOrNan => mask_of(x, y, |x, y| T::of(x) == T::of(y)),
        Comparison::Ne | Comparison::NeOrNan => mask_of(x, y, |x, y| T::of(x) != T::of(y)),
        Comparison::Lt | Comparison::LtOrNan => mask_of(x, y, |x, y| T::of(x) < T::of(y)),
        Comparison::Le | Comparison::LeOrNan => mask_of(x, y, |x, y| T::of(x) <= T::of(y)),
        Comparison::Gt | Comparison::GtOrNan => mask_of(x, y, |x, y| T::of(x) > T::of(y)),
        Comparison::Ge | Comparison::GeOrNan => mask_of(x, y, |x, y| T::of(x) >= T::of(y)),
        Comparison::Ordered => u32::MAX,
        Comparison::Unordered => 0,
    }
}

#[inline(always)]
fn mad_low<T: Int>(file: &mut RegisterFile, to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
    let (x, y, z) = (file.get::<T::Lane>(a), file.get::<T::Lane>(b), file.get::<T::Lane>(c));
    let value = std::array::from_fn(|i| T::of(x[i]).mul(T::of(y[i])).add(T::of(z[i])).lane());
    file.put(to, mask, value);
}

fn mad_high<T: Int>(file: &mut RegisterFile, to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
    let (x, y, z) = (file.get::<T::Lane>(a), file.get::<T::Lane>(b), file.get::<T::Lane>(c));
    let of = |i: usize| {
        let high = T::of(x[i]).upcast().wrapping_mul(T::of(y[i]).upcast()) >> T::BITS;
        T::truncated(high.wrapping_add(T::of(z[i]).upcast())).lane()
    };
    file.put(to, mask, std::array::from_fn(of));
}

/// The sum has twice the bits of the factors.
fn mad_wide<T: Int>(file: &mut RegisterFile, to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
    let is_wide = T::BITS == 32;
    let (x, y) = (*file.get::<T::Lane>(a), *file.get::<T::Lane>(b));
    let z = file.bits(c, is_wide);
    let of = |i: usize| (T::of(x[i]).upcast().wrapping_mul(T::of(y[i]).upcast()) as u64).wrapping_add(z[i]);
    file.put_bits(to, is_wide, mask, std::array::from_fn(of));
}
