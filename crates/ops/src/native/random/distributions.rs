//! Random numbers: element i, in the order of indices, depends on the seed and on i alone.

use crate::loops::{self, generate_by_word, generate_by_word64, generate_normal};
use crate::vectorized::Convert;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Element, Generator, MemoryFormat, Result, Scalar, ScalarType, ensure};

/// The generator given, or the one of the process.
pub(crate) fn generator_or_default(generator: Option<&Generator>) -> &Generator {
    generator.unwrap_or_else(|| Generator::default_cpu())
}

/// Calls `fill` on `self_`, or where it is not contiguous on a new tensor that is copied into it: values follow the order of
/// indices, whatever that of memory.
pub(crate) fn in_index_order(self_: &Tensor, fill: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    if self_.is_contiguous() {
        return fill(self_);
    }
    let dense = Tensor::empty_contiguous(self_.sizes(), self_.dtype(), self_.device())?;
    fill(&dense)?;
    ops::copy_(self_, &dense, false)
}

/// Random words as numbers from 0 to below 1, with as many binary digits as the type holds.
trait Uniform: Element + Convert + PartialOrd {
    /// Digits of its significand.
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
    ensure!(
        from <= to,
        InvalidArgument,
        "uniform_ expects to return a [from, to) range, but found from={from} > to={to}"
    );
    for (name, value) in [("from", from), ("to", to)] {
        let fits = !dtype.is_floating_point()
            || Scalar::Float(value).check_range(dtype).is_ok() && value.is_finite();
        ensure!(fits, InvalidArgument, "uniform_: {name} is out of bounds for {dtype}");
    }
    let width = to - from;
    in_index_order(self_, |out| {
        dispatch_all_types!(floats, dtype, "uniform_", T => {
            // Rounding may reach the end of the range, which is not part of it.
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
    ensure!(std >= 0.0, InvalidArgument, "normal expects std >= 0.0, but found std {std}");
    let generator = generator_or_default(generator);
    let dtype = self_.dtype();
    // Pairs are made whole.
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

/// Fills with functions of uniform numbers above 0 and below 1, of more digits than any type holds; what they give is rounded once, at
/// the end, to a number within `bounds` of the type.
fn fill_by_inverse<T: Uniform>(
    name: &str,
    out: &Tensor,
    generator: Option<&Generator>,
    (least, most): (f64, f64),
    value: impl Fn(f64) -> f64 + Sync,
) -> Result<()> {
    let philox = generator_or_default(generator).reserve_words(out.numel(), 2)?;
    let (least, most) = (T::of(least), T::of(most));
    generate_by_word64::<T>(name, out, philox, |word| {
        // Half a step away from both ends.
        let u = ((word >> 12) as f64 + 0.5) * 2f64.powi(-52);
        let drawn = T::of(value(u));
        if drawn < least {
            least
        } else if drawn > most {
            most
        } else {
            drawn
        }
    })
}

/// The least positive number of a floating point type that a draw may meet, and the greatest.
fn range_of(dtype: ScalarType) -> (f64, f64) {
    match dtype {
        ScalarType::F16 => (half::f16::MIN_POSITIVE_SUBNORMAL.to_f64(), half::f16::MAX.to_f64()),
        ScalarType::BF16 => (half::bf16::MIN_POSITIVE.to_f64(), half::bf16::MAX.to_f64()),
        ScalarType::F32 => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        _ => (f64::MIN_POSITIVE, f64::MAX),
    }
}

/// Fills with numbers of the exponential distribution, by the inverse of its probability: above 0, and finite.
pub fn exponential_(self_: &Tensor, lambd: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    ensure!(lambd > 0.0, InvalidArgument, "exponential_ expects lambda > 0.0, but found lambda={lambd}");
    ensure!(
        dtype.is_floating_point(),
        Dtype,
        "exponential_: Exponential distribution is a continuous probability distribution. dtype must be a floating point but \
         you specified {dtype}"
    );
    in_index_order(self_, |out| {
        dispatch_all_types!(floats, dtype, "exponential_", T => {
            fill_by_inverse::<T>("exponential_", out, generator, range_of(dtype), |u| -(-u).ln_1p() / lambd)
        })
    })
}

/// Fills with numbers of the Cauchy distribution, by the inverse of its probability: finite.
pub fn cauchy_(self_: &Tensor, median: f64, sigma: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    ensure!(sigma > 0.0, InvalidArgument, "cauchy_ expects sigma > 0.0, but found sigma={sigma}");
    ensure!(
        dtype.is_floating_point(),
        Dtype,
        "cauchy_: Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you \
         specified {dtype}"
    );
    in_index_order(self_, |out| {
        dispatch_all_types!(floats, dtype, "cauchy_", T => {
            let (_, most) = range_of(dtype);
            fill_by_inverse::<T>("cauchy_", out, generator, (-most, most), |u| {
                median + sigma * (std::f64::consts::PI * (u - 0.5)).tan()
            })
        })
    })
}

/// Fills with the number of trials up to the first success of probability `p`.
pub fn geometric_(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    ensure!(0.0 < p && p < 1.0, InvalidArgument, "geometric_ expects p to be in (0, 1), but got p={p}");
    ensure!(dtype != ScalarType::Bool, NotImplemented, "\"geometric_\" not implemented for 'Bool'");
    let failure = (-p).ln_1p();
    let philox = generator_or_default(generator).reserve_words(self_.numel(), 2)?;
    let scale = 2f64.powi(-53);
    let most = if dtype.is_floating_point() { range_of(dtype).1 } else { whole_range(dtype).1 as f64 };
    // Below 2^63, which the greatest i64 is not once it is a float.
    let most = most.min(if dtype == ScalarType::I64 { 2f64.powi(63) - 1024.0 } else { f64::MAX });
    in_index_order(self_, |out| {
        dispatch_all_types!(ordered_numbers, dtype, "geometric_", T => {
            generate_by_word64::<T>("geometric_", out, philox, |word| {
                let u = (word >> 11) as f64 * scale;
                T::from_scalar(Scalar::Float(((-u).ln_1p() / failure).ceil().clamp(1.0, most)))
            })
        })
    })
}

/// Fills with numbers whose logarithm is normal.
pub fn log_normal_(self_: &Tensor, mean: f64, std: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!(std > 0.0, InvalidArgument, "log_normal_ expects std > 0.0, but found std={std}");
    let dtype = self_.dtype();
    ensure!(
        dtype.is_floating_point(),
        Dtype,
        "log_normal_: dtype must be a floating point but you specified {dtype}"
    );
    let wide = if dtype == ScalarType::F64 { dtype } else { ScalarType::F32 };
    let normal = Tensor::empty_contiguous(self_.sizes(), wide, self_.device())?;
    normal_(&normal, mean, std, generator)?;
    ops::copy_(self_, &ops::exp(&normal)?, false)
}

/// The whole numbers that a type holds without gaps: from the first to the second, both included.
fn whole_range(dtype: ScalarType) -> (i64, i64) {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        ScalarType::Bool => (0, 1),
        ScalarType::F16 => (-(1 << 11), 1 << 11),
        ScalarType::BF16 => (-(1 << 8), 1 << 8),
        ScalarType::F32 => (-(1 << 24), 1 << 24),
        ScalarType::F64 => (-(1 << 53), 1 << 53),
        _ if dtype.is_signed() => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        _ => (0, i64::MAX >> (63 - bits)),
    }
}

/// The greatest number of at most so many binary digits that is not above `value`.
fn rounded_down(value: i64, digits: u32) -> i64 {
    let excess = (64 - value.unsigned_abs().leading_zeros()).saturating_sub(digits);
    // A shift rounds down, whatever the sign.
    value.checked_shr(excess).map_or(value, |short| short << excess)
}

/// Fills with whole numbers from `low`, of which there are `count`. A 64-bit word is scaled rather than divided: no value is
/// likelier than another by more than `count / 2^64`.
fn fill_whole(self_: &Tensor, low: i64, count: u128, generator: Option<&Generator>) -> Result<()> {
    let philox = generator_or_default(generator).reserve_words(self_.numel(), 2)?;
    // What is drawn is rounded to the type, but not out of the range.
    let last = low.wrapping_add((count - 1) as i64);
    // The least of all integers is a power of two, which every type holds.
    let rounded_up =
        |value: i64, digits| value.checked_neg().map_or(value, |positive| -rounded_down(positive, digits));
    let (least, most) = match self_.dtype() {
        ScalarType::F16 => (rounded_up(low, 11), rounded_down(last, 11)),
        ScalarType::BF16 => (rounded_up(low, 8), rounded_down(last, 8)),
        ScalarType::F32 => (rounded_up(low, 24), rounded_down(last, 24)),
        ScalarType::F64 => (rounded_up(low, 53), rounded_down(last, 53)),
        _ => (low, last),
    };
    let within = |value: i64| if least <= most { value.clamp(least, most) } else { value };
    in_index_order(self_, |out| {
        dispatch_all_types!(ordered, self_.dtype(), "random_", T => generate_by_word64::<T>("random_", out, philox, |word| {
            let step = (u128::from(word) * count) >> 64;
            T::from_scalar(Scalar::Int(within(low.wrapping_add(step as i64))))
        }))
    })
}

/// Fills with whole numbers from 0 to the greatest of the type; to 2^24 for `float32`, and so on.
pub fn random_(self_: &Tensor, generator: Option<&Generator>) -> Result<()> {
    let (_, most) = whole_range(self_.dtype());
    fill_whole(self_, 0, most as u128 + 1, generator)
}

/// Fills with whole numbers from 0 to below `to`.
pub fn random_to(self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<()> {
    random_from(self_, 0, Some(to), generator)
}

/// Fills with whole numbers from `from` to below `to`, or to the greatest of the type.
pub fn random_from(self_: &Tensor, from: i64, to: Option<i64>, generator: Option<&Generator>) -> Result<()> {
    let dtype = self_.dtype();
    let (least, most) = whole_range(dtype);
    let last = match to {
        Some(to) => {
            ensure!(
                from < to,
                InvalidArgument,
                "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}"
            );
            to - 1
        }
        None => most,
    };
    for (name, value) in [("from", from), ("to - 1", last)] {
        let inside = if dtype.is_floating_point() {
            Scalar::Int(value).check_range(dtype).is_ok()
        } else {
            (least..=most).contains(&value)
        };
        ensure!(inside, InvalidArgument, "random_: {name} is out of bounds for {dtype}");
    }
    ensure!(from <= last, InvalidArgument, "random_ expects 'from' to be at most {last}, but got {from}");
    fill_whole(self_, from, (i128::from(last) - i128::from(from) + 1) as u128, generator)
}

/// Fills with ones of probability `p`, and zeros.
pub fn bernoulli_float(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    ensure!((0.0..=1.0).contains(&p), InvalidArgument, "bernoulli_ expects p to be in [0, 1], but got p={p}");
    let philox = generator_or_default(generator).reserve_words(self_.numel(), 1)?;
    let limit = p * 2f64.powi(32);
    in_index_order(self_, |out| {
        dispatch_all_types!(all, self_.dtype(), "bernoulli_", T => generate_by_word::<T>("bernoulli_", out, philox, |word| {
            T::from_scalar(Scalar::Bool(f64::from(word) < limit))
        }))
    })
}

/// Fills with ones of the probability that `p` gives at the same place, and zeros.
pub fn bernoulli_tensor(self_: &Tensor, p: &Tensor, generator: Option<&Generator>) -> Result<()> {
    let dtype = p.dtype();
    ensure!(
        dtype.is_floating_point(),
        NotImplemented,
        "bernoulli_: probabilities are not implemented for {dtype}"
    );
    let possible =
        ops::logical_and(&ops::ge_scalar(p, Scalar::Int(0))?, &ops::le_scalar(p, Scalar::Int(1))?)?;
    ensure!(
        p.device().is_meta() || loops::all_true(&possible)?,
        InvalidArgument,
        "bernoulli_: Expected p_in >= 0 && p_in <= 1 to be true, but got false."
    );
    let wide = if dtype == ScalarType::F64 { ScalarType::F64 } else { ScalarType::F32 };
    let uniform = Tensor::empty_contiguous(self_.sizes(), wide, self_.device())?;
    uniform_(&uniform, 0.0, 1.0, generator)?;
    ops::copy_(self_, &ops::lt_tensor(&uniform, p)?, false)
}

/// Ones with the probabilities that `self_` gives, and zeros.
pub fn bernoulli(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let made = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    bernoulli_tensor(&made, self_, generator)?;
    Ok(made)
}

/// Ones of probability `p`, and zeros, in the sizes of `self_`.
pub fn bernoulli_p(self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let made = ops::empty_like(self_, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    bernoulli_float(&made, p, generator)?;
    Ok(made)
}
