//! Random tensors made new, permutations, and draws from lists of probabilities.

use crate::native::random::distributions::generator_or_default;
use crate::{Tensor, dispatch_all_types, loops, ops};
use flambeau_core::{
    Device, Element, Generator, Layout, MemoryFormat, Philox, Result, Scalar, ScalarType, ensure, fallible,
    shape,
};

/// An operator that makes a tensor and fills it, with a generator and without.
macro_rules! fresh {
    ($($(#[$doc:meta])* fn $name:ident, $with_generator:ident($($arg:ident: $ty:ty),*) = $fill:expr, $dtype:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(
            $($arg: $ty,)*
            size: &[i64],
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            $with_generator($($arg,)* size, None, dtype, layout, device, pin_memory)
        }

        #[doc = concat!("[`", stringify!($name), "`] from a generator.")]
        #[allow(clippy::too_many_arguments, reason = "the schema has as many")]
        pub fn $with_generator(
            $($arg: $ty,)*
            size: &[i64],
            generator: Option<&Generator>,
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
        ) -> Result<Tensor> {
            let made = ops::empty_memory_format(size, dtype.or($dtype), layout, device, pin_memory, None)?;
            let fill: fn(&Tensor, Option<&Generator>, ($($ty,)*)) -> Result<()> = $fill;
            fill(&made, generator, ($($arg,)*))?;
            Ok(made)
        }
    )*};
}

fresh! {
    /// Uniform numbers from 0 to below 1.
    fn rand, rand_generator() = |made, generator, ()| ops::uniform_(made, 0.0, 1.0, generator), None;
    /// Normal numbers of mean 0 and standard deviation 1.
    fn randn, randn_generator() = |made, generator, ()| ops::normal_(made, 0.0, 1.0, generator), None;
    /// Whole numbers from 0 to below `high`.
    fn randint, randint_generator(high: i64) =
        |made, generator, (high,)| ops::random__from(made, 0, Some(high), generator), Some(ScalarType::I64);
    /// Whole numbers from `low` to below `high`.
    fn randint_low, randint_low_generator(low: i64, high: i64) =
        |made, generator, (low, high)| ops::random__from(made, low, Some(high), generator), Some(ScalarType::I64);
}

/// Uniform numbers in the sizes of another tensor.
pub fn rand_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let made = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::uniform_(&made, 0.0, 1.0, None)?;
    Ok(made)
}

/// Normal numbers in the sizes of another tensor.
pub fn randn_like(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let made = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    ops::normal_(&made, 0.0, 1.0, None)?;
    Ok(made)
}

/// An operator that makes whole numbers from `low` to below `high` in the sizes of another tensor.
macro_rules! randints_like {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*; $($generator:ident)?) = $low:expr, $high:expr;)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the schema has as many")]
        pub fn $name(
            self_: &Tensor,
            $($arg: $ty,)*
            $($generator: Option<&Generator>,)?
            dtype: Option<ScalarType>,
            layout: Option<Layout>,
            device: Option<Device>,
            pin_memory: Option<bool>,
            memory_format: Option<MemoryFormat>,
        ) -> Result<Tensor> {
            let made = ops::empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
            let generator: [Option<&Generator>; 1] = [None $(.or($generator))?];
            ops::random__from(&made, $low, Some($high), generator[0])?;
            Ok(made)
        }
    )*};
}

randints_like! {
    /// Whole numbers from 0 to below `high` in the sizes of another tensor.
    fn randint_like(high: i64;) = 0, high;
    /// [`randint_like`] from a generator.
    fn randint_like_generator(high: i64; generator) = 0, high;
    /// Whole numbers from `low` to below `high` in the sizes of another tensor.
    fn randint_like_low(low: i64, high: i64;) = low, high;
    /// [`randint_like_low`] from a generator.
    fn randint_like_low_generator(low: i64, high: i64; generator) = low, high;
}

/// Normal numbers of one mean and one standard deviation.
#[allow(clippy::too_many_arguments, reason = "the schema has as many")]
pub fn normal(
    mean: f64,
    std: f64,
    size: &[i64],
    generator: Option<&Generator>,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let made = ops::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    ops::normal_(&made, mean, std, generator)?;
    Ok(made)
}

/// The numbers from 0 to below `n` in a random order.
pub fn randperm(
    n: i64,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    randperm_generator(n, None, dtype, layout, device, pin_memory)
}

/// [`randperm`] from a generator.
pub fn randperm_generator(
    n: i64,
    generator: Option<&Generator>,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or(ScalarType::I64);
    ensure!(n >= 0, InvalidArgument, "randperm: Trying to create tensor with negative dimension {n}: [{n}]");
    Scalar::Int(n).check_range(dtype).map_err(|e| e.context("randperm"))?;
    let made = ops::empty_memory_format(&[n], Some(dtype), layout, device, pin_memory, None)?;
    if made.device().is_meta() {
        return Ok(made);
    }
    let mut order = fallible::collect(0..n).map_err(|e| e.context("randperm"))?;
    shuffle(&mut order, generator_or_default(generator).reserve_words(n, 2)?);
    dispatch_all_types!(numbers, dtype, "randperm", T => {
        loops::generate_by_index::<T>("randperm", &made, |i| T::from_scalar(Scalar::Int(order[i])))
    })?;
    Ok(made)
}

/// A shuffle by Fisher and Yates: place `i` is exchanged with one from `i` on.
fn shuffle(order: &mut [i64], philox: Philox) {
    for i in 0..order.len() {
        let left = (order.len() - i) as u128;
        order.swap(i, i + ((u128::from(philox.word64(i as u64)) * left) >> 64) as usize);
    }
}

/// Places drawn from each row of probabilities, which need not sum to one; without replacement no place comes twice.
pub fn multinomial(
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    check_multinomial(self_, num_samples, replacement)?;
    let places = self_.sizes().last().copied().unwrap_or(0) as usize;
    let rows = if self_.dim() == 2 { self_.sizes()[0] as usize } else { 1 };
    let sizes = if self_.dim() == 2 { vec![rows as i64, num_samples] } else { vec![num_samples] };
    let draws = num_samples as usize;
    let count = shape::numel(&sizes)?;
    let mut chosen: Vec<i64> = Vec::new();
    ensure!(
        chosen.try_reserve_exact(count as usize).is_ok(),
        OutOfMemory,
        "multinomial: expected memory for {count} samples"
    );
    let per_row = if replacement { draws } else { places };
    let philox = generator_or_default(generator).reserve_words((rows * per_row) as i64, 2)?;
    let all = probabilities(self_)?;
    for row in 0..rows {
        let weights = &all[row * places..(row + 1) * places];
        check_weights(weights, if replacement { 1 } else { draws })?;
        let uniform = |i: usize| (philox.word64((row * per_row + i) as u64) >> 11) as f64 * 2f64.powi(-53);
        if replacement {
            draw_with_replacement(weights, draws, uniform, &mut chosen)?;
        } else {
            draw_without_replacement(weights, draws, uniform, &mut chosen)?;
        }
    }
    Tensor::from_vec(chosen, &sizes)
}

/// The probabilities in f64, row by row.
fn probabilities(self_: &Tensor) -> Result<Vec<f64>> {
    let wide = Tensor::empty_contiguous(self_.sizes(), ScalarType::F64, Device::CPU)?;
    ops::copy_(&wide, self_, false)?;
    wide.to_vec::<f64>()
}

fn check_multinomial(self_: &Tensor, num_samples: i64, replacement: bool) -> Result<()> {
    ensure!(matches!(self_.dim(), 1 | 2), Shape, "multinomial: prob_dist must be 1 or 2 dim");
    ensure!(
        self_.is_floating_point(),
        Dtype,
        "multinomial only supports floating-point dtypes for input, got: {}",
        self_.dtype()
    );
    ensure!(num_samples > 0, InvalidArgument, "multinomial: cannot sample n_sample <= 0 samples");
    let places = self_.sizes().last().copied().unwrap_or(0);
    ensure!(
        replacement || num_samples <= places,
        InvalidArgument,
        "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    Ok(())
}

fn check_weights(weights: &[f64], drawn: usize) -> Result<()> {
    ensure!(
        weights.iter().all(|w| *w >= 0.0 && w.is_finite()),
        InvalidArgument,
        "multinomial: probability tensor contains either `inf`, `nan` or element < 0"
    );
    ensure!(
        weights.iter().sum::<f64>() > 0.0,
        InvalidArgument,
        "multinomial: invalid multinomial distribution (sum of probabilities <= 0)"
    );
    let possible = weights.iter().filter(|w| **w > 0.0).count();
    ensure!(
        drawn <= possible,
        InvalidArgument,
        "multinomial: invalid multinomial distribution (with replacement=False, not enough non-negative category to sample: \
         expected at least {drawn} weights above 0 but got {possible})"
    );
    Ok(())
}

/// Each draw looks for its place among the running sums.
fn draw_with_replacement(
    weights: &[f64],
    draws: usize,
    uniform: impl Fn(usize) -> f64,
    chosen: &mut Vec<i64>,
) -> Result<()> {
    let sums = fallible::collect(weights.iter().scan(0.0, |sum, w| {
        *sum += w;
        Some(*sum)
    }))?;
    let total = sums.last().copied().unwrap_or(0.0);
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    for i in 0..draws {
        let target = uniform(i) * total;
        chosen.push(sums.partition_point(|sum| *sum <= target).min(last) as i64);
    }
    Ok(())
}

/// A race of exponential times, of which the smallest win: place k arrives first with probability `w[k] / sum(w)`, and so on
/// among the rest. (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.)
fn draw_without_replacement(
    weights: &[f64],
    draws: usize,
    uniform: impl Fn(usize) -> f64,
    chosen: &mut Vec<i64>,
) -> Result<()> {
    let time = |(k, w): (usize, &f64)| (if *w > 0.0 { -(-uniform(k)).ln_1p() / w } else { f64::INFINITY }, k);
    let mut times = fallible::collect(weights.iter().enumerate().map(time))?;
    times.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    chosen.extend(times.iter().take(draws).map(|(_, k)| *k as i64));
    Ok(())
}

/// Normal numbers in the sizes of `like`.
fn standard(like: &Tensor, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    let made = ops::empty_like(like, None, None, None, None, Some(MemoryFormat::Contiguous))?;
    ops::normal_(&made, 0.0, std, generator)?;
    Ok(made)
}

/// Normal numbers of a mean each.
pub fn normal_tensor_float(mean: &Tensor, std: f64, generator: Option<&Generator>) -> Result<Tensor> {
    // The result has the order of the first.
    ops::add_tensor(&standard(mean, std, generator)?, mean, Scalar::Int(1))
}

/// Normal numbers of a standard deviation each.
pub fn normal_float_tensor(mean: f64, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let least =
        if std.numel() > 0 && !std.device().is_meta() { ops::min(std)?.item_scalar()?.to_f64() } else { 0.0 };
    ensure!(least >= 0.0, InvalidArgument, "normal expects all elements of std >= 0.0");
    ops::add_scalar(
        &ops::mul_tensor(&standard(std, 1.0, generator)?, std)?,
        Scalar::Float(mean),
        Scalar::Int(1),
    )
}

/// Normal numbers of a mean and a standard deviation each.
pub fn normal_tensor_tensor(mean: &Tensor, std: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let sizes = shape::broadcast(mean.sizes(), std.sizes()).map_err(|e| e.context("normal"))?;
    let std = ops::expand(std, &sizes, false)?;
    let deviation = normal_float_tensor(0.0, &std, generator)?;
    let made = ops::add_tensor(&deviation, mean, Scalar::Int(1))?;
    ops::_to_copy(&made, Some(mean.dtype()), None, None, None, false, None)
}
