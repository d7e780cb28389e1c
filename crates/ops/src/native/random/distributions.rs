//! In-place sampling of distributions. Element i, in row-major order, depends on the seed and on i alone.

use crate::loops::{self, generate_by_word, generate_by_word64, generate_normal};
use crate::native::shape::complex_views::view_as_real;
use crate::vectorized::Convert;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Element, Generator, MemoryFormat, Result, Scalar, ScalarType, ensure};
use std::f64::consts::FRAC_1_SQRT_2;

/// The given generator, or the default one of the process.
pub(crate) fn generator_or_default(generator: Option<&Generator>) -> &Generator {
    generator.unwrap_or_else(|| Generator::default_cpu())
}

/// Calls `fill` on `self_`, or, if that is not contiguous, on a new tensor that is copied to it: values follow the row-major
/// order of indices, not the order in memory.
pub(crate) fn in_index_order(self_: &Tensor, fill: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    if self_.is_contiguous() {
        return fill(self_);
    }
    let dense = Tensor::empty_contiguous(self_.sizes(), self_.dtype(), self_.device())?;
    fill(&dense)?;
    ops::copy_(self_, &dense, false)
}

/// Types of uniform numbers from 0 to below 1, which have as many random bits as the significand.
trait Uniform: Element + Convert + PartialOrd {
    /// Bits of the significand.
    const DIGITS: u32;
}

impl Uniform for half::f16 {
    const DIGITS: u32 = 11;
}
impl Uniform for half::bf16 {
    const DIGITS: u32 = 8;
}
impl Uniform for f32 {
    const DIGITS: u32 = 24;
}
impl Uniform for f64 {
    const DIGITS: u32 = 53;
}

/// Fills with functions of uniform numbers, computed in f64 and rounded once.
fn fill_uniform<T: Uniform>(
    name: &str,
    out: &Tensor,
    generator: Option<&Generator>,
    value: impl Fn(f64) -> f64 + Sync,
) -> Result<()> {
    let generator = generator_or_default(generator);
    let scale = 2f64.powi(-(T::DIGITS as i32));
    if T::DIGITS > 32 {
        let philox = generator.reserve_words(out.numel(), 2)?;
        let shift = 64 - T::DIGITS;
        return generate_by_word64::<T>(name, out, philox, |word| {
            T::of(value((word >> shift) as f64 * scale))
        });
    }
    let philox = generator.reserve_words(out.numel(), 1)?;
    let shift = 32 - T::DIGITS;
    generate_by_word::<T>(name, out, philox, |word| T::of(value(f64::from(word >> shift) * scale)))
}

/// Fills with uniform numbers from `from` to below `to`.
pub fn uniform_(self_: &Tensor, from: f64, to: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    if dtype.is_complex() {
        return uniform_(&view_as_real(self_)?, from, to, generator);
    }
    ensure!(
        from <= to,
        InvalidArgument,
        operator = "uniform_",
        argument = "from",
        "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
    );
    for (name, value) in [("from", from), ("to", to)] {
        let fits = !dtype.is_floating_point()
            || Scalar::Float(value).check_range(dtype).is_ok() && value.is_finite();
        ensure!(fits, InvalidArgument("uniform_", name), "{name} is out of bounds for {dtype}");
    }
    let width = to - from;
    in_index_order(self_, |out| {
        dispatch_all_types!(floats, dtype, "uniform_", T => {
            // Rounding may give `to`, which is not in the range.
            let (first, last) = (from, Convert::to_f64(T::of(to)));
            fill_uniform::<T>("uniform_", out, generator, move |u| {
                let x = from + u * width;
                if Convert::to_f64(T::of(x)) < last { x } else { first }
            })
        })
    })
}

/// Fills with normal numbers of the given mean and standard deviation.
pub fn normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(
        std >= 0.0,
        InvalidArgument,
        operator = "normal",
        argument = "std",
        "normal expects std >= 0.0, but found std {std}"
    );
    if self_.dtype().is_complex() {
        // Each part has half of the variance.
        return normal_(&view_as_real(self_)?, mean, std * FRAC_1_SQRT_2, generator);
    }
    let generator = generator_or_default(generator);
    let dtype = self_.dtype();
    // The Box-Muller transform computes numbers in pairs.
    let count = self_.numel().saturating_add(self_.numel() % 2);
    in_index_order(self_, |out| match dtype {
        ScalarType::F64 => {
            let philox = generator.reserve_words(count, 2)?;
            generate_normal::<f64, f64>("normal_", out, philox, |z| mean + std * z)
        }
        _ => dispatch_all_types!(floats, dtype, "normal_", T => {
            let philox = generator.reserve_words(count, 1)?;
            let (mean, std) = (mean as f32, std as f32);
            generate_normal::<f32, T>("normal_", out, philox, move |z| T::of(mean + std * z))
        }),
    })
}

/// Fills by inversion: `value` maps a uniform number strictly between 0 and 1, of 53 bits, to a number that is rounded once and
/// clamped to the given range.
fn fill_by_inverse<T: Uniform>(
    name: &str,
    out: &Tensor,
    generator: Option<&Generator>,
    (lowest, highest): (f64, f64),
    value: impl Fn(f64) -> f64 + Sync,
) -> Result<()> {
    let philox = generator_or_default(generator).reserve_words(out.numel(), 2)?;
    let (lowest, highest) = (T::of(lowest), T::of(highest));
    generate_by_word64::<T>(name, out, philox, |word| {
        // Offset by half a step, so that neither 0 nor 1 occurs.
        let u = ((word >> 12) as f64 + 0.5) * 2f64.powi(-52);
        let sample = T::of(value(u));
        if sample < lowest {
            lowest
        } else if sample > highest {
            highest
        } else {
            sample
        }
    })
}

/// The smallest positive and the largest finite number of a floating point type that a sample may have.
fn range_of(dtype: ScalarType) -> (f64, f64) {
    match dtype {
        ScalarType::F16 => (half::f16::MIN_POSITIVE_SUBNORMAL.to_f64(), half::f16::MAX.to_f64()),
        ScalarType::BF16 => (half::bf16::MIN_POSITIVE.to_f64(), half::bf16::MAX.to_f64()),
        ScalarType::F32 => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        _ => (f64::MIN_POSITIVE, f64::MAX),
    }
}

/// Fills with numbers of the exponential distribution, by the inverse of its cumulative distribution: above 0, and finite.
pub fn exponential_(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    ensure!(
        lambd > 0.0,
        InvalidArgument,
        operator = "exponential_",
        argument = "lambd",
        "exponential_ expects lambda > 0.0, but found lambda={lambd}"
    );
    ensure!(
        dtype.is_floating_point(),
        Dtype("exponential_", "self"),
        "Exponential distribution is a continuous probability distribution. dtype must be a floating point but \
         you specified {dtype}"
    );
    in_index_order(self_, |out| {
        dispatch_all_types!(floats, dtype, "exponential_", T => {
            fill_by_inverse::<T>("exponential_", out, generator, range_of(dtype), |u| -(-u).ln_1p() / lambd)
        })
    })
}

/// Fills with finite numbers of the Cauchy distribution, by the inverse of its cumulative distribution.
pub fn cauchy_(self_: &Tensor, median: f64, sigma: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    ensure!(
        sigma > 0.0,
        InvalidArgument,
        operator = "cauchy_",
        argument = "sigma",
        "cauchy_ expects sigma > 0.0, but found sigma={sigma}"
    );
    ensure!(
        dtype.is_floating_point(),
        Dtype("cauchy_", "self"),
        "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you \
         specified {dtype}"
    );
    in_index_order(self_, |out| {
        dispatch_all_types!(floats, dtype, "cauchy_", T => {
            let (_, highest) = range_of(dtype);
            fill_by_inverse::<T>("cauchy_", out, generator, (-highest, highest), |u| {
                median + sigma * (std::f64::consts::PI * (u - 0.5)).tan()
            })
        })
    })
}

/// Fills with the number of trials up to the first success of probability `p`.
pub fn geometric_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    ensure!(
        0.0 < p && p < 1.0,
        InvalidArgument,
        operator = "geometric_",
        argument = "p",
        "geometric_ expects p to be in (0, 1), but got p={p}"
    );
    ensure!(
        dtype != ScalarType::Bool,
        NotImplemented,
        operator = "geometric_",
        argument = "self",
        "\"geometric_\" not implemented for '{dtype}'"
    );
    let failure = (-p).ln_1p();
    let philox = generator_or_default(generator).reserve_words(self_.numel(), 2)?;
    let scale = 2f64.powi(-53);
    let highest = if dtype.is_floating_point() {
        range_of(dtype).1
    } else {
        exact_integer_range("geometric_", dtype)?.1 as f64
    };
    // Below 2^63, to which the maximum of i64 would be rounded in f64.
    let highest = highest.min(if dtype == ScalarType::I64 { 2f64.powi(63) - 1024.0 } else { f64::MAX });
    in_index_order(self_, |out| {
        dispatch_all_types!(ordered_numbers, dtype, "geometric_", T => {
            generate_by_word64::<T>("geometric_", out, philox, |word| {
                let u = (word >> 11) as f64 * scale;
                T::from_scalar(Scalar::Float(((-u).ln_1p() / failure).ceil().clamp(1.0, highest)))
            })
        })
    })
}

/// Fills with numbers whose logarithm is normal.
pub fn log_normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(
        std > 0.0,
        InvalidArgument,
        operator = "log_normal_",
        argument = "std",
        "log_normal_ expects std > 0.0, but found std={std}"
    );
    let dtype = self_.dtype();
    ensure!(
        dtype.is_floating_point(),
        Dtype("log_normal_", "self"),
        "dtype must be a floating point but you specified {dtype}"
    );
    let wide = if dtype == ScalarType::F64 { dtype } else { ScalarType::F32 };
    let normal = Tensor::empty_contiguous(self_.sizes(), wide, self_.device())?;
    normal_(&normal, mean, std, generator)?;
    ops::copy_(self_, &ops::exp(&normal)?, false)
}

/// The range of consecutive integers that a type represents exactly, with both bounds.
fn exact_integer_range(name: &str, dtype: ScalarType) -> Result<(i64, i64)> {
    ensure!(!dtype.is_complex(), NotImplemented(name, "self"), "\"{name}\" not implemented for '{dtype}'");
    let bits = 8 * dtype.size() as u32;
    Ok(match dtype {
        ScalarType::Bool => (0, 1),
        ScalarType::F16 => (-(1 << 11), 1 << 11),
        ScalarType::BF16 => (-(1 << 8), 1 << 8),
        ScalarType::F32 => (-(1 << 24), 1 << 24),
        ScalarType::F64 => (-(1 << 53), 1 << 53),
        // Of unsigned integers those that are i64 too.
        ScalarType::U64 => (0, i64::MAX),
        _ if dtype.is_signed() => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        _ => (0, i64::MAX >> (63 - bits)),
    })
}

/// The largest number with at most so many significant bits that is not above `value`.
fn rounded_down(value: i64, digits: u32) -> i64 {
    let excess = (64 - value.unsigned_abs().leading_zeros()).saturating_sub(digits);
    // An arithmetic shift rounds down for both signs.
    value.checked_shr(excess).map_or(value, |short| short << excess)
}

/// Consecutive integers of which one is drawn. A random word of 64 bits is multiplied by their number and shifted: probabilities differ
/// relatively by at most `count / 2^64`.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    /// The first.
    pub low: i64,
    /// How many there are, at most 2^64.
    pub count: u128,
    /// Samples are rounded to the type, but not out of this range, unless that is empty.
    pub bounds: (i64, i64),
}

impl Integers {
    fn new(dtype: ScalarType, low: i64, count: u128) -> Self {
        let last = low.wrapping_add((count - 1) as i64);
        // The minimum of i64 is a power of two, which every type represents.
        let rounded_up = |value: i64, digits| {
            value.checked_neg().map_or(value, |positive| -rounded_down(positive, digits))
        };
        let bounds = match dtype {
            ScalarType::F16 => (rounded_up(low, 11), rounded_down(last, 11)),
            ScalarType::BF16 => (rounded_up(low, 8), rounded_down(last, 8)),
            ScalarType::F32 => (rounded_up(low, 24), rounded_down(last, 24)),
            ScalarType::F64 => (rounded_up(low, 53), rounded_down(last, 53)),
            _ => (low, last),
        };
        Integers { low, count, bounds }
    }

    /// Those of [`random_`].
    ///
    /// # Errors
    /// `NotImplemented` for complex numbers.
    pub fn of_type(dtype: ScalarType) -> Result<Self> {
        let (_, highest) = exact_integer_range("random_", dtype)?;
        Ok(Self::new(dtype, 0, highest as u128 + 1))
    }

    /// One of at most 2^32 integers: `word * count >> 64` in factors of 32 bits, which vectors have.
    #[inline(always)]
    fn sample_few(&self, word: u64) -> i64 {
        let (high, low) = (word >> 32, word & u64::from(u32::MAX));
        let count = self.count as u64;
        self.bounded((high.wrapping_mul(count).wrapping_add(low.wrapping_mul(count) >> 32) >> 32) as i64)
    }

    /// One of less than 2^64 integers, with `count` as 64 bits.
    #[inline(always)]
    fn sample_many(&self, count: u64, word: u64) -> i64 {
        self.bounded(high_product(word, count) as i64)
    }

    #[inline(always)]
    fn bounded(&self, step: i64) -> i64 {
        let (value, (lowest, highest)) = (self.low.wrapping_add(step), self.bounds);
        if lowest <= highest { value.clamp(lowest, highest) } else { value }
    }
}

/// `a * b >> 64` in factors of 32 bits, which vectors have.
#[inline(always)]
fn high_product(a: u64, b: u64) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    let ((a_high, a_low), (b_high, b_low)) = ((a >> 32, a & LOW), (b >> 32, b & LOW));
    // No sum exceeds 2^64: a product is at most 2^64 - 2^33 + 1.
    let middle = a_high * b_low + ((a_low * b_low) >> 32);
    let other = a_low * b_high + (middle & LOW);
    a_high * b_high + (middle >> 32) + (other >> 32)
}

fn fill_integers(self_: &Tensor, integers: Integers, generator: Option<&Generator>) -> Result<()> {
    if self_.dtype().is_barebones_unsigned() {
        let signed = ops::empty_like(self_, Some(ScalarType::I64), None, None, None, None)?;
        fill_integers(&signed, integers, generator)?;
        return ops::copy_(self_, &signed, false);
    }
    let philox = generator_or_default(generator).reserve_words(self_.numel(), 2)?;
    in_index_order(self_, |out| {
        dispatch_all_types!(ordered, self_.dtype(), "random_", T => match integers.count {
            // `count` is at least 1, and the products below 2^64.
            ..=0x1_0000_0000 => generate_by_word64::<T>("random_", out, philox, |word| {
                T::from_scalar(Scalar::Int(integers.sample_few(word)))
            }),
            count => match u64::try_from(count) {
                Ok(count) => generate_by_word64::<T>("random_", out, philox, |word| {
                    T::from_scalar(Scalar::Int(integers.sample_many(count, word)))
                }),
                // All of 64 bits.
                Err(_) => generate_by_word64::<T>("random_", out, philox, |word| {
                    T::from_scalar(Scalar::Int(integers.bounded(word as i64)))
                }),
            },
        })
    })
}

/// Fills with integers from 0 to the maximum of the type, or to the last of consecutive integers: 2^24 for `float32`.
pub fn random_(self_: &Tensor, generator: Option<&Generator>) -> Result<()> {
    fill_integers(self_, Integers::of_type(self_.dtype())?, generator)
}

/// Fills with integers from 0 to below `to`.
pub fn random_to(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<()> {
    random_from(self_, 0, Some(to), generator)
}

/// Fills with integers from `from` to below `to`, or to the maximum of the type.
pub fn random_from(self_: &Tensor, from: i64, to: Option<i64>, generator: Option<&Generator>) -> Result<()> {
    fill_integers(self_, integers_from(self_.dtype(), from, to)?, generator)
}

/// The integers of [`random_from`].
pub fn integers_from(dtype: ScalarType, from: i64, to: Option<i64>) -> Result<Integers> {
    let (lowest, highest) = exact_integer_range("random_", dtype)?;
    let last = match to {
        Some(to) => {
            ensure!(
                from < to,
                InvalidArgument,
                operator = "random_",
                argument = "from",
                "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
            );
            to - 1
        }
        None => highest,
    };
    for (name, value) in [("from", from), ("to - 1", last)] {
        let inside = if dtype.is_floating_point() {
            Scalar::Int(value).check_range(dtype).is_ok()
        } else {
            (lowest..=highest).contains(&value)
        };
        ensure!(inside, InvalidArgument("random_", name), "{name} is out of bounds for {dtype}");
    }
    ensure!(
        from <= last,
        InvalidArgument,
        operator = "random_",
        argument = "from",
        "random_ expects 'from' to be at most {last}, but got {from}"
    );
    Ok(Integers::new(dtype, from, (i128::from(last) - i128::from(from) + 1) as u128))
}

/// Fills with ones, with probability `p`, and zeros.
pub fn bernoulli_float(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(
        (0.0..=1.0).contains(&p),
        InvalidArgument,
        operator = "bernoulli_",
        argument = "p",
        "bernoulli_ expects p to be in [0, 1], but got p={p}"
    );
    let philox = generator_or_default(generator).reserve_words(self_.numel(), 1)?;
    let limit = p * 2f64.powi(32);
    in_index_order(self_, |out| {
        dispatch_all_types!(all, self_.dtype(), "bernoulli_", T => generate_by_word::<T>("bernoulli_", out, philox, |word| {
            T::from_scalar(Scalar::Bool(f64::from(word) < limit))
        }))
    })
}

/// Fills with ones, with the probability that `p` has at the same index, and zeros.
pub fn bernoulli_tensor(self_: &Tensor, p: &Tensor, generator: Option<&Generator>) -> Result<()> {
    let dtype = p.dtype();
    ensure!(
        dtype.is_floating_point(),
        NotImplemented("bernoulli_", "p"),
        "probabilities are not implemented for {dtype}"
    );
    let possible =
        ops::logical_and(&ops::ge_scalar(p, Scalar::Int(0))?, &ops::le_scalar(p, Scalar::Int(1))?)?;
    ensure!(
        p.device().is_meta() || loops::all_true(&possible)?,
        InvalidArgument("bernoulli_", "p"),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
    );
    let wide = if dtype == ScalarType::F64 { ScalarType::F64 } else { ScalarType::F32 };
    let uniform = Tensor::empty_contiguous(self_.sizes(), wide, self_.device())?;
    uniform_(&uniform, 0.0, 1.0, generator)?;
    ops::copy_(self_, &ops::lt_tensor(&uniform, p)?, false)
}

/// Ones with the probabilities that `self_` gives, and zeros.
pub fn bernoulli(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let output = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    bernoulli_tensor(&output, self_, generator)?;
    Ok(output)
}

/// Ones of probability `p`, and zeros, in the sizes of `self_`.
pub fn bernoulli_p(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let output = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    bernoulli_float(&output, p, generator)?;
    Ok(output)
}
