//! Instructions on floating point numbers, and conversions.
//!
//! Sums, products and multiply-adds that round to nearest are the processor's own, by far the most frequent. All else goes through `f64`
//! lane by lane. Instructions with `.approx` are computed in `f64` and rounded once, inside the bounds that PTX states for devices.

use super::lanes::{Lane, RegisterFile, Row, each, mask_of, pairs};
use crate::instruction::{
    Comparison, Conversion, FloatBinary, FloatType, FloatUnary, Mode, Number, Reg, Rounding,
};
use crate::rounding::{
    self, add, decode, directed_product, directed_sum, div, encode, finish, flush, mul_add, of_integer, sqrt,
    to_integer,
};

/// A type whose arithmetic the processor has.
pub(crate) trait Real: Copy + PartialOrd {
    type Lane: Lane;
    fn of(lane: Self::Lane) -> Self;
    fn lane(self) -> Self::Lane;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn fma(self, factor: Self, term: Self) -> Self;
}

macro_rules! reals {
    ($($real:ident $lane:ident $nan:literal;)*) => {$(
        impl Real for $real {
            type Lane = $lane;

            #[inline(always)]
            fn of(lane: $lane) -> Self {
                $real::from_bits(lane)
            }

            /// A NaN that arithmetic gives is the one that devices give.
            #[inline(always)]
            fn lane(self) -> $lane {
                if self.is_nan() { $nan } else { self.to_bits() }
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }

            #[inline(always)]
            fn fma(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
        }
    )*};
}

reals! {
    f32 u32 0x7fff_ffff;
    f64 u64 0xfff8_0000_0000_0000;
}

fn is_wide(ty: FloatType) -> bool {
    ty == FloatType::F64
}

impl RegisterFile {
    /// A row of values, flushed if the mode does that.
    fn values(&self, ty: FloatType, register: Reg, flushes: bool) -> Row<f64> {
        let bits = self.bits(register, is_wide(ty));
        each(&bits, |bits| {
            let value = decode(ty, bits);
            if flushes { flush(ty, value) } else { value }
        })
    }

    fn put_values(&mut self, ty: FloatType, to: Reg, mask: u32, values: &Row<f64>) {
        self.put_bits(to, is_wide(ty), mask, each(values, |value| encode(ty, value)));
    }

    #[inline(always)]
    pub(super) fn float_binary(
        &mut self,
        op: FloatBinary,
        (ty, mode): (FloatType, Mode),
        to: Reg,
        [a, b]: [Reg; 2],
        mask: u32,
    ) {
        let is_done = mode == Mode::PLAIN
            && match ty {
                FloatType::F32 => plain_binary::<f32>(self, op, to, a, b, mask),
                FloatType::F64 => plain_binary::<f64>(self, op, to, a, b, mask),
                _ => false,
            };
        if !is_done {
            self.any_binary(op, (ty, mode), to, [a, b], mask);
        }
    }

    fn any_binary(
        &mut self,
        op: FloatBinary,
        (ty, mode): (FloatType, Mode),
        to: Reg,
        [a, b]: [Reg; 2],
        mask: u32,
    ) {
        if op == FloatBinary::CopySign {
            let sign = 1u64 << (ty.bits() - 1);
            let (x, y) = (self.bits(a, is_wide(ty)), self.bits(b, is_wide(ty)));
            // `copysign d, a, b` takes the sign of `a`.
            self.put_bits(to, is_wide(ty), mask, pairs(&x, &y, |x, y| y & !sign | x & sign));
            return;
        }
        let (x, y) = (self.values(ty, a, mode.flushes), self.values(ty, b, mode.flushes));
        let result = pairs(&x, &y, |x, y| finish(ty, binary(op, ty, x, y, mode.rounding), mode));
        self.put_values(ty, to, mask, &result);
    }

    #[inline(always)]
    pub(super) fn fma(&mut self, (ty, mode): (FloatType, Mode), to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
        match ty {
            FloatType::F32 if mode == Mode::PLAIN => plain_fma::<f32>(self, to, [a, b, c], mask),
            FloatType::F64 => plain_fma::<f64>(self, to, [a, b, c], mask),
            _ => self.any_fma((ty, mode), to, [a, b, c], mask),
        }
    }

    fn any_fma(&mut self, (ty, mode): (FloatType, Mode), to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
        let [x, y, z] = [a, b, c].map(|register| self.values(ty, register, mode.flushes));
        let of = |i: usize| finish(ty, mul_add(x[i], y[i], z[i], mode.rounding), mode);
        let result: Row<f64> = std::array::from_fn(of);
        self.put_values(ty, to, mask, &result);
    }

    pub(super) fn float_unary(
        &mut self,
        op: FloatUnary,
        (ty, mode): (FloatType, Mode),
        to: Reg,
        a: Reg,
        mask: u32,
    ) {
        let sign = 1u64 << (ty.bits() - 1);
        match op {
            FloatUnary::Neg | FloatUnary::Abs if !mode.flushes => {
                let flipped = if op == FloatUnary::Neg { sign } else { 0 };
                let kept = if op == FloatUnary::Neg { u64::MAX } else { !sign };
                let bits = each(&self.bits(a, is_wide(ty)), |bits| (bits ^ flipped) & kept);
                self.put_bits(to, is_wide(ty), mask, bits);
            }
            _ => {
                let x = self.values(ty, a, mode.flushes);
                let result = each(&x, |x| finish(ty, unary(op, ty, x, mode.rounding), mode));
                self.put_values(ty, to, mask, &result);
            }
        }
    }

    #[inline(always)]
    pub(super) fn compare_float(
        &self,
        op: Comparison,
        (ty, flushes): (FloatType, bool),
        a: Reg,
        b: Reg,
    ) -> u32 {
        match ty {
            FloatType::F32 if !flushes => {
                let real = f32::from_bits;
                let (x, y) = (each(self.get(a), real), each(self.get(b), real));
                compare(op, &x, &y)
            }
            FloatType::F64 => {
                let real = f64::from_bits;
                let (x, y) = (each(self.get(a), real), each(self.get(b), real));
                compare(op, &x, &y)
            }
            _ => compare(op, &self.values(ty, a, flushes), &self.values(ty, b, flushes)),
        }
    }

    pub(super) fn convert(&mut self, to: Reg, from: Reg, of: &Conversion, mask: u32) {
        let (to_bits, from_bits) = of.register_bits;
        let bits = self.bits(from, from_bits > 32);
        let result = each(&bits, |bits| extend(converted(bits, of), of.to, to_bits));
        self.put_bits(to, to_bits > 32, mask, result);
    }

    /// A conversion between integers that does not clamp.
    #[inline(always)]
    pub(super) fn extend(&mut self, to: Reg, from: Reg, of: &Conversion, mask: u32) {
        let (to_bits, from_bits) = of.register_bits;
        let (Number::Int { bits, is_signed }, Number::Int { bits: kept, .. }) = (of.from, of.to) else {
            return;
        };
        let (above, drop) = (64 - u32::from(bits), 64 - u32::from(kept));
        let one = |x: u64| {
            let x = if is_signed { ((x << above) as i64 >> above) as u64 } else { x << above >> above };
            extend(x << drop >> drop, of.to, to_bits)
        };
        if from_bits > 32 {
            let value = each(self.get::<u64>(from), one);
            self.put_bits(to, to_bits > 32, mask, value);
        } else {
            let value = each(self.get::<u32>(from), |x| one(u64::from(x)));
            self.put_bits(to, to_bits > 32, mask, value);
        }
    }
}

/// Bits of a number in a register that may have more: integers are extended by their sign.
#[inline(always)]
fn extend(bits: u64, number: Number, register_bits: u8) -> u64 {
    let above = 64 - u32::from(number.bits());
    let value = match number {
        Number::Int { is_signed: true, .. } => ((bits << above) as i64 >> above) as u64,
        _ => bits,
    };
    let unused = 64 - u32::from(register_bits);
    value << unused >> unused
}

#[inline(always)]
fn plain_binary<T: Real>(
    file: &mut RegisterFile,
    op: FloatBinary,
    to: Reg,
    a: Reg,
    b: Reg,
    mask: u32,
) -> bool {
    let (x, y) = (file.get::<T::Lane>(a), file.get::<T::Lane>(b));
    let value = match op {
        FloatBinary::Add => pairs(x, y, |x, y| T::of(x).add(T::of(y)).lane()),
        FloatBinary::Sub => pairs(x, y, |x, y| T::of(x).sub(T::of(y)).lane()),
        FloatBinary::Mul => pairs(x, y, |x, y| T::of(x).mul(T::of(y)).lane()),
        FloatBinary::Div => pairs(x, y, |x, y| T::of(x).div(T::of(y)).lane()),
        _ => return false,
    };
    file.put(to, mask, value);
    true
}

#[inline(always)]
fn plain_fma<T: Real>(file: &mut RegisterFile, to: Reg, [a, b, c]: [Reg; 3], mask: u32) {
    let (x, y, z) = (file.get::<T::Lane>(a), file.get::<T::Lane>(b), file.get::<T::Lane>(c));
    let value = std::array::from_fn(|i| T::of(x[i]).fma(T::of(y[i]), T::of(z[i])).lane());
    file.put(to, mask, value);
}

/// A result in f64, rounded to odd where it is rounded again.
fn binary(op: FloatBinary, ty: FloatType, x: f64, y: f64, rounding: Rounding) -> f64 {
    let is_double = ty == FloatType::F64;
    match op {
        FloatBinary::Add if is_double => directed_sum(x, y, rounding),
        FloatBinary::Sub if is_double => directed_sum(x, -y, rounding),
        FloatBinary::Mul if is_double => directed_product(x, y, rounding),
        FloatBinary::Div if is_double => x / y,
        FloatBinary::Add => add(x, y, rounding),
        FloatBinary::Sub => add(x, -y, rounding),
        FloatBinary::Mul => x * y,
        FloatBinary::Div => div(x, y),
        FloatBinary::DivApprox => {
            let is_large = y.abs() > rounding::power_of_two(126) && y.is_finite();
            if is_large { (x * 0.0).copysign(x * y.signum()) } else { div(x, y) }
        }
        FloatBinary::Min => lesser(x, y),
        FloatBinary::Max => -lesser(-x, -y),
        FloatBinary::MinNan if x.is_nan() || y.is_nan() => f64::NAN,
        FloatBinary::MinNan => lesser(x, y),
        FloatBinary::MaxNan if x.is_nan() || y.is_nan() => f64::NAN,
        FloatBinary::MaxNan => -lesser(-x, -y),
        FloatBinary::CopySign => y.copysign(x),
    }
}

/// The lesser number, where -0 is less than 0; the other one if one is NaN.
fn lesser(x: f64, y: f64) -> f64 {
    match x.partial_cmp(&y) {
        None if x.is_nan() => y,
        None => x,
        Some(std::cmp::Ordering::Less) => x,
        Some(std::cmp::Ordering::Greater) => y,
        Some(std::cmp::Ordering::Equal) => {
            if x.is_sign_negative() {
                x
            } else {
                y
            }
        }
    }
}

/// The value of the 32 high bits.
fn high_bits(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & 0xffff_ffff_0000_0000)
}

fn unary(op: FloatUnary, ty: FloatType, x: f64, _rounding: Rounding) -> f64 {
    let is_double = ty == FloatType::F64;
    match op {
        FloatUnary::Neg => -x,
        FloatUnary::Abs => x.abs(),
        FloatUnary::Sqrt if is_double => x.sqrt(),
        FloatUnary::Sqrt => sqrt(x),
        FloatUnary::Reciprocal if is_double => 1.0 / x,
        FloatUnary::Reciprocal => div(1.0, x),
        FloatUnary::ReciprocalSqrt => 1.0 / x.sqrt(),
        FloatUnary::Exp2 => x.exp2(),
        FloatUnary::Log2 => x.log2(),
        FloatUnary::Sin => x.sin(),
        FloatUnary::Cos => x.cos(),
        FloatUnary::Tanh => x.tanh(),
        FloatUnary::ReciprocalOfHighBits => high_bits(1.0 / high_bits(flush(ty, x))),
        FloatUnary::ReciprocalSqrtOfHighBits => high_bits(1.0 / high_bits(flush(ty, x)).sqrt()),
    }
}

#[inline(always)]
fn compare<T: PartialOrd + Copy>(op: Comparison, x: &Row<T>, y: &Row<T>) -> u32 {
    match op {
        Comparison::Eq => mask_of(x, y, |x, y| x == y),
        Comparison::Ne => mask_of(x, y, |x, y| x.partial_cmp(&y).is_some_and(|order| order.is_ne())),
        Comparison::Lt => mask_of(x, y, |x, y| x < y),
        Comparison::Le => mask_of(x, y, |x, y| x <= y),
        Comparison::Gt => mask_of(x, y, |x, y| x > y),
        Comparison::Ge => mask_of(x, y, |x, y| x >= y),
        Comparison::EqOrNan => mask_of(x, y, |x, y| x.partial_cmp(&y).is_none_or(|order| order.is_eq())),
        Comparison::NeOrNan => mask_of(x, y, |x, y| x != y),
        Comparison::LtOrNan => !mask_of(x, y, |x, y| x >= y),
        Comparison::LeOrNan => !mask_of(x, y, |x, y| x > y),
        Comparison::GtOrNan => !mask_of(x, y, |x, y| x <= y),
        Comparison::GeOrNan => !mask_of(x, y, |x, y| x < y),
        Comparison::Ordered => mask_of(x, y, |x, y| x <= y || x > y),
        Comparison::Unordered => !mask_of(x, y, |x, y| x <= y || x > y),
    }
}

/// An element of one type as the bits of another.
fn converted(bits: u64, of: &Conversion) -> u64 {
    match (of.from, of.to) {
        (Number::Int { .. }, Number::Int { bits: to, is_signed }) => {
            let value = integer_of(bits, of.from);
            let (low, high) = range(to, is_signed);
            let value = if of.mode.saturates { value.clamp(low, high) } else { value };
            value as u64 & (u64::MAX >> (64 - u32::from(to)))
        }
        (Number::Int { .. }, Number::Float(FloatType::F64)) => {
            let value = integer_of(bits, of.from);
            let nearest = value as f64;
            let error = (value - nearest as i128) as f64;
            let exact = rounding::directed(nearest, error, of.mode.rounding);
            finish(FloatType::F64, exact, of.mode).to_bits()
        }
        (Number::Int { .. }, Number::Float(ty)) => {
            encode(ty, finish(ty, of_integer(integer_of(bits, of.from)), of.mode))
        }
        (Number::Float(from), Number::Int { bits: to, is_signed }) => {
            let value = decode(from, bits);
            let value = if of.mode.flushes { flush(from, value) } else { value };
            if value.is_nan() {
                let is_zero = from != FloatType::F64 && to < 64;
                return if is_zero { 0 } else { 1 << (to - 1) };
            }
            let (low, high) = range(to, is_signed);
            // A cast clamps too.
            let whole = (to_integer(value, of.mode.rounding) as i128).clamp(low, high);
            whole as u64 & (u64::MAX >> (64 - u32::from(to)))
        }
        (Number::Float(from), Number::Float(to)) => {
            let value = decode(from, bits);
            let value = if of.mode.flushes { flush(from, value) } else { value };
            let value = if of.to_integer { to_integer(value, of.mode.rounding) } else { value };
            // To f64 everything is exact.
            encode(to, finish(to, value, of.mode))
        }
    }
}

fn integer_of(bits: u64, number: Number) -> i128 {
    let above = 64 - u32::from(number.bits());
    match number {
        Number::Int { is_signed: true, .. } => i128::from((bits << above) as i64 >> above),
        _ => i128::from(bits << above >> above),
    }
}

/// The smallest and the largest integer of a type.
fn range(bits: u8, is_signed: bool) -> (i128, i128) {
    match is_signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    }
}
