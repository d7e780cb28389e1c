//! Samples of the Poisson and the binomial distribution. Element i depends on the seed and on i alone.

use crate::native::guarded_slices::{fill, with_slices};
use crate::native::random::distributions::generator_or_default;
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, loops, ops};
use flambeau_core::{Generator, MemoryFormat, Philox, Result, Scalar, ScalarType, ensure};
use std::sync::LazyLock;

/// Uniform numbers for one element. Each attempt of rejection sampling takes two and succeeds with a probability of at least 0.8,
/// so that all attempts fail for one of 10^22 elements; the sample is the mode of the distribution then.
const UNIFORMS: u64 = 64;
/// Distributions with a smaller mean are sampled by inversion, others by rejection.
const SMALL: f64 = 10.0;

/// Elements whose first uniform numbers are computed at a time.
const GROUP: usize = 16;

/// The uniform numbers of one element, from 0 to below 1: two of each block of its part of the stream.
struct Uniforms {
    philox: Philox,
    /// Those of the first block.
    first: (f64, f64),
    begin: u64,
    next: u64,
}

impl Uniforms {
    /// The index of an element's first block.
    #[inline(always)]
    fn first_block(element: usize) -> u64 {
        element as u64 * (UNIFORMS / 2)
    }

    /// Those of `GROUP` elements. Their first numbers are computed in the vectors of the processor: one after the other, each element
    /// would wait for the rounds of its block.
    fn of_group(philox: Philox, first: usize) -> [Self; GROUP] {
        let pairs = with_processor_vectors(
            #[inline(always)]
            || {
                let mut blocks = [[0; 4]; GROUP];
                for (i, block) in blocks.iter_mut().enumerate() {
                    *block = philox.block(Self::first_block(first + i));
                }
                blocks.map(pair_of)
            },
        );
        std::array::from_fn(|i| {
            let begin = Self::first_block(first + i);
            Uniforms { philox, first: pairs[i], begin, next: begin }
        })
    }

    fn draw(&self) -> f64 {
        self.first.0
    }

    fn pair(&mut self) -> Option<(f64, f64)> {
        let at = self.next;
        self.next += 1;
        match at - self.begin {
            0 => Some(self.first),
            nr if nr < UNIFORMS / 2 => Some(pair_of(self.philox.block(at))),
            _ => None,
        }
    }
}

/// The uniform numbers of a block.
#[inline(always)]
fn pair_of([a, b, c, d]: [u32; 4]) -> (f64, f64) {
    let uniform =
        |low: u32, high: u32| ((u64::from(low) | u64::from(high) << 32) >> 11) as f64 * 2f64.powi(-53);
    (uniform(a, b), uniform(c, d))
}

/// Inversion: the smallest count whose cumulative probability exceeds the uniform number `u`. `first` is the probability of 0 and
/// `ratio(k)` the probability of `k` divided by that of `k - 1`.
fn by_inversion(u: f64, first: f64, highest: f64, ratio: impl Fn(f64) -> f64) -> f64 {
    let (mut count, mut probability, mut sum) = (0.0, first, first);
    // For means below `SMALL`, the probability of more than 200 is below the rounding error of the sum.
    while u >= sum && count < highest.min(200.0) {
        count += 1.0;
        probability *= ratio(count);
        sum += probability;
    }
    count
}

/// `ln(k!)` below 16.
static SMALL_LN_FACTORIALS: LazyLock<[f64; 16]> =
    LazyLock::new(|| std::array::from_fn(|k| (2..=k as u32).map(|n| f64::from(n).ln()).sum()));

/// `ln(k!)`: a sum, or Stirling's series, whose error is of the order of rounding errors from 16 on.
fn ln_factorial(k: f64) -> f64 {
    if k < 16.0 {
        return SMALL_LN_FACTORIALS[k as usize];
    }
    let square = (k * k).recip();
    let series = (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0)) / k;
    (k + 0.5) * k.ln() - k + 0.5 * std::f64::consts::TAU.ln() + series
}

/// Hörmann, "The transformed rejection method for generating Poisson random variables" (1993): `PTRS`.
fn poisson_of(rate: f64, mut uniforms: Uniforms) -> f64 {
    if rate < SMALL {
        return by_inversion(uniforms.draw(), (-rate).exp(), f64::INFINITY, |k| rate / k);
    }
    if !rate.is_finite() {
        return rate;
    }
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let (steepness, squeeze) = (1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0));
    while let Some((u, v)) = uniforms.pair() {
        let u = u - 0.5;
        let edge = 0.5 - u.abs();
        let k = ((2.0 * a / edge + b) * u + rate + 0.43).floor();
        if edge >= 0.07 && v <= squeeze {
            return k;
        }
        if k < 0.0 || (edge < 0.013 && v > edge) {
            continue;
        }
        let height = (v * steepness / (a / (edge * edge) + b)).ln();
        if height <= k * rate.ln() - rate - ln_factorial(k) {
            return k;
        }
    }
    rate.floor()
}

/// Hörmann, "The generation of binomial random variates" (1993): `BTRS`.
fn binomial_of(count: f64, probability: f64, mut uniforms: Uniforms) -> f64 {
    if count.is_nan() || probability.is_nan() {
        return f64::NAN;
    }
    let count = count.floor();
    if count <= 0.0 || probability <= 0.0 {
        return 0.0;
    }
    if probability >= 1.0 {
        return count;
    }
    if probability > 0.5 {
        return count - binomial_of(count, 1.0 - probability, uniforms);
    }
    let (p, q) = (probability, 1.0 - probability);
    let odds = p / q;
    if count * p < SMALL {
        let first = (count * (-p).ln_1p()).exp();
        return by_inversion(uniforms.draw(), first, count, |k| odds * (count - k + 1.0) / k);
    }
    let mode = ((count + 1.0) * p).floor();
    let deviation = (count * p * q).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let (steepness, squeeze) = ((2.83 + 5.1 / b) * deviation, 0.92 - 4.2 / b);
    while let Some((u, v)) = uniforms.pair() {
        let u = u - 0.5;
        let edge = 0.5 - u.abs();
        let k = ((2.0 * a / edge + b) * u + count * p + 0.5).floor();
        if k < 0.0 || k > count {
            continue;
        }
        if edge >= 0.07 && v <= squeeze {
            return k;
        }
        let height = (v * steepness / (a / (edge * edge) + b)).ln();
        let others =
            ln_factorial(mode) + ln_factorial(count - mode) - ln_factorial(k) - ln_factorial(count - k);
        if height <= others + (k - mode) * odds.ln() {
            return k;
        }
    }
    mode
}

/// Contiguous and in f64, in which all counts are exact that any type represents.
fn in_f64(tensor: &Tensor) -> Result<Tensor> {
    let format = Some(MemoryFormat::Contiguous);
    crate::native::factory::copy::to_copy(tensor, Some(ScalarType::F64), None, None, None, false, format)
}

/// A count for each element of the parameters, in the type of the first.
fn counted<const N: usize>(
    name: &str,
    parameters: [&Tensor; N],
    generator: Option<&Generator>,
    count: impl Fn([f64; N], Uniforms) -> f64 + Sync,
) -> Result<Tensor> {
    let dtype = parameters[0].dtype();
    for parameter in parameters {
        let fits = parameter.dtype() == dtype && dtype.is_floating_point();
        ensure!(
            fits,
            NotImplemented(name),
            "expected parameters of one floating point type but got {dtype} and {}",
            parameter.dtype()
        );
    }
    let counts =
        TensorSpec::like(parameters[0], parameters[0].sizes()).with_dtype(ScalarType::F64).allocate(name)?;
    if !counts.device().is_meta() {
        let wide: Vec<Tensor> = parameters.into_iter().map(in_f64).collect::<Result<_>>()?;
        let philox = generator_or_default(generator).reserve_words(counts.numel(), 2 * UNIFORMS)?;
        with_slices(name, &wide.iter().collect::<Vec<_>>(), &[&counts], |s| {
            let mut from: [&[f64]; N] = [&[]; N];
            for (nr, from) in from.iter_mut().enumerate() {
                *from = s.read::<f64>(nr)?;
            }
            fill(s.write::<f64>(0)?, 1, |range, part| {
                for (part, first) in part.chunks_mut(GROUP).zip(range.step_by(GROUP)) {
                    let elements = part.iter_mut().zip(Uniforms::of_group(philox, first)).enumerate();
                    for (i, (to, uniforms)) in elements {
                        *to = count(from.map(|values| values[first + i]), uniforms);
                    }
                }
            });
            Ok(())
        })?;
    }
    counts.to(dtype)
}

/// Counts of events at the rates that `self_` gives: of the Poisson distribution.
pub fn poisson(self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    const NAME: &str = "poisson";
    let possible = self_.device().is_meta() || loops::all_true(&ops::ge_scalar(self_, Scalar::Int(0))?)?;
    ensure!(
        possible,
        InvalidArgument(NAME, "self"),
        "invalid Poisson rate, expected rate to be non-negative"
    );
    counted(NAME, [self_], generator, |[rate], uniforms| poisson_of(rate, uniforms))
}

/// Counts of successes among `count` trials of probability `prob`: of the binomial distribution.
pub fn binomial(count: &Tensor, prob: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let both = ops::broadcast_tensors(&[count.clone(), prob.clone()])?;
    counted("binomial", [&both[0], &both[1]], generator, |[count, p], uniforms| {
        binomial_of(count, p, uniforms)
    })
}
