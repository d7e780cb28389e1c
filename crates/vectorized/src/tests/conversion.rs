//! Conversion between all pairs of types on every set, against rules written out on i128 and f64.

use half::{bf16, f16};

use super::*;

/// An element as a number: exactly.
#[derive(Clone, Copy, Debug)]
enum Value {
    Integer(i128),
    Float(f64),
}

/// A type's side of the reference.
trait Reference: Convert + PartialEq + Default + std::fmt::Debug {
    fn value(self) -> Value;
    fn expected(value: Value) -> Self;
    fn inputs() -> Vec<Self>;
}

/// The result of x86's conversion of a float to an integer of 32 or 64 bits.
fn truncated(value: Value, bits: u32) -> i128 {
    let min = -(1i128 << (bits - 1));
    match value {
        Value::Integer(x) => x,
        Value::Float(x) if x.is_nan() => min,
        Value::Float(x) => Some(x as i128).filter(|x| (min..-min).contains(x)).unwrap_or(min),
    }
}

/// Through f32, as PyTorch's half types go.
fn single(value: Value) -> f32 {
    match value {
        Value::Integer(x) => x as f32,
        Value::Float(x) => x as f32,
    }
}

macro_rules! integer_reference {
    ($($type:ident through $bits:literal;)*) => {$(
        impl Reference for $type {
            fn value(self) -> Value { Value::Integer(self.into()) }
            fn expected(value: Value) -> Self { truncated(value, $bits) as $type }
            fn inputs() -> Vec<Self> {
                let mut random = Random(17);
                let edges = [0, 1, 2, 100, 127, $type::MIN, $type::MAX, $type::MAX - 1, $type::MAX / 2, !0];
                edges.into_iter().chain((0..600).map(|i| (random.bits() >> (i % 64)) as $type)).collect()
            }
        }
    )*};
}

integer_reference! {
    u8 through 64;
    i8 through 32;
    i16 through 32;
    i32 through 32;
    i64 through 64;
}

macro_rules! float_reference {
    ($($type:ident, $to:expr, $from:expr;)*) => {$(
        impl Reference for $type {
            fn value(self) -> Value { Value::Float(f64::from(self)) }
            fn expected(value: Value) -> Self { $to(value) }
            fn inputs() -> Vec<Self> {
                let mut random = Random(19);
                let edges = [255.5, -1.5, 127.9, -128.9, 32768.0, 65504.0, 65520.0, 2147483520.0, 2147483648.0, -2147483648.0,
                    -2147483904.0, 4294967296.0, 4294967297.0, 9223372036854775808.0, -9223372036854775808.0, 1.0009765625, 1.00048828125];
                let wide = (0..400).map(|_| random.between(-1.0, 1.0) * 2f64.powf(random.between(-20.0, 66.0))).collect::<Vec<_>>();
                special_f64().into_iter().chain(edges).chain(wide).map($from).collect()
            }
        }
    )*};
}

float_reference! {
    f64, |value| match value { Value::Integer(x) => x as f64, Value::Float(x) => x }, |x| x;
    f32, single, |x| x as f32;
    f16, |value| f16::from_f32_const(single(value)), f16::from_f64;
    bf16, |value| bf16::from_f32_const(single(value)), bf16::from_f64;
}

impl Reference for bool {
    fn value(self) -> Value {
        Value::Integer(self.into())
    }
    fn expected(value: Value) -> Self {
        match value {
            Value::Integer(x) => x != 0,
            Value::Float(x) => x != 0.0,
        }
    }
    fn inputs() -> Vec<Self> {
        (0..300).map(|i| i % 3 == 0).collect()
    }
}

fn is_nan(x: impl Reference) -> bool {
    matches!(x.value(), Value::Float(x) if x.is_nan())
}

fn check<From: Reference, To: Reference>() {
    let from = From::inputs();
    for set in CpuCapability::available() {
        for length in (0..70).chain([from.len()]) {
            let from = &from[from.len() - length..];
            let mut to = vec![To::default(); length];
            {
                let _guard = override_cpu_capability(set).unwrap();
                // SAFETY: both slices hold `length` elements.
                unsafe { convert_slice(from.as_ptr(), to.as_mut_ptr(), length) };
            }
            for (x, got) in from.iter().zip(to) {
                let expected = To::expected(x.value());
                let both_nan = is_nan(got) && is_nan(expected);
                assert!(got == expected || both_nan, "{x:?} on {set:?}: got {got:?}, expected {expected:?}");
                let alone = x.convert::<To>();
                assert!(alone == expected || both_nan, "{x:?} alone: got {alone:?}, expected {expected:?}");
            }
        }
    }
}

#[test]
fn all_pairs_of_types_convert_as_pytorch_does() {
    macro_rules! pairs {
        ($($from:ident)*) => {$(pairs!(@ $from: bool u8 i8 i16 i32 i64 f16 bf16 f32 f64);)*};
        (@ $from:ident: $($to:ident)*) => {$(check::<$from, $to>();)*};
    }
    pairs!(bool u8 i8 i16 i32 i64 f16 bf16 f32 f64);
}

#[test]
fn bools_from_outside_may_be_any_byte() {
    let bytes: Vec<u8> = (0..=255).collect();
    for set in CpuCapability::available() {
        let (mut integers, mut halves) = (vec![7i32; 256], vec![f16::NAN; 256]);
        let _guard = override_cpu_capability(set).unwrap();
        // SAFETY: the slices hold 256 elements each.
        unsafe {
            convert_slice(bytes.as_ptr().cast::<bool>(), integers.as_mut_ptr(), 256);
            convert_slice(bytes.as_ptr().cast::<bool>(), halves.as_mut_ptr(), 256);
        }
        assert!(
            (0..256)
                .all(|i| integers[i] == i32::from(i > 0) && halves[i] == f16::from_f32(integers[i] as f32))
        );
    }
}

/// Stores numbers of a half type that are neither denormal nor NaN, in whole vectors.
struct Normal<'a, T> {
    from: &'a [f32],
    to: &'a mut [T],
}

impl<T> CodegenAnchor for Normal<'_, T> {
    type Anchor = Self;
}

impl<I: Isa, T: Lanes<I, Vector: Vector<Element = f32>>> Kernel<I> for Normal<'_, T> {
    #[inline(always)]
    unsafe fn run(self) {
        let lanes = T::Vector::LANES;
        for (from, to) in self.from.chunks_exact(lanes).zip(self.to.chunks_exact_mut(lanes)) {
            // SAFETY: both are as long as a vector.
            unsafe { T::store_normal(T::Vector::load(from.as_ptr()), to.as_mut_ptr()) };
        }
    }
}

#[test]
fn normal_numbers_are_rounded_as_all_others() {
    let mut random = Random(23);
    let mut from =
        vec![0.0, -0.0, f32::INFINITY, -f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, -f32::MIN_POSITIVE, 1.0];
    // Halves between two bf16 and beside them, then all that normal numbers can be.
    from.extend(
        (0..256u32)
            .flat_map(|i| [0x7fff, 0x8000, 0x8001].map(|low| f32::from_bits(0x3f80_0000 + (i << 16) + low))),
    );
    from.extend((0..100_000).map(|_| f32::from_bits(random.bits() as u32)).filter(|x| x.is_normal()));
    from.truncate(from.len() / 64 * 64);
    for set in CpuCapability::available() {
        let _guard = override_cpu_capability(set).unwrap();
        let mut to = vec![bf16::ZERO; from.len()];
        // SAFETY: the kernel checks its slices.
        unsafe { dispatch(Normal { from: &from, to: &mut to }) };
        for (&from, to) in from.iter().zip(to) {
            assert_eq!(to.to_bits(), bf16::of(from).to_bits(), "{from:e} on {set:?}");
        }
    }
}
