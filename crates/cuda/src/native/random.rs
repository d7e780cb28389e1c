//! Random numbers, from the generator of the device. A seed gives the same numbers on every device: uniform and normal numbers, integers
//! and truth values are computed by the device as on the host, and others are drawn on the host and copied.

use super::{empty, meta, name_of, program, to_device};
use crate::graph;
use crate::launch::{Arguments, Grid, ceil_div, gpu_of, guarded};
use crate::print::pair_function;
use flambeau_core::{Device, DispatchKeySet, Generator, Result, ScalarType};
use flambeau_ops::loops::normal_expression;
use flambeau_ops::native::random::distributions::Integers;
use flambeau_ops::native::random::{distributions, multinomial, poisson_binomial};
use flambeau_ops::{Tensor, ops, register};
use std::f64::consts::FRAC_1_SQRT_2;

/// The kind of normal numbers.
const NORMAL: &str = "NORMAL";

const SOURCE: &str = include_str!("../kernels/random.cu");

/// Registers the kernels of the host, which draw there for other devices, with the generator of the tensor's device as default.
macro_rules! drawn {
    ($($operator:ident $kernel:ident($($arg:ident: $ty:ty),*);)*) => {$(
        const _: () = {
            fn kernel(_: DispatchKeySet, self_: &Tensor, $($arg: $ty,)* generator: Option<&Generator>) -> Result<()> {
                let generator = match generator {
                    Some(generator) => generator,
                    None => Generator::default_of(self_.device())?,
                };
                refuse_in_capture(stringify!($kernel), self_)?;
                distributions::$kernel(self_, $($arg,)* Some(generator))
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

drawn! {
    BERNOULLI__TENSOR bernoulli_tensor(p: &Tensor);
    CAUCHY_ cauchy_(median: f64, sigma: f64);
    EXPONENTIAL_ exponential_(lambd: f64);
    GEOMETRIC_ geometric_(p: f64);
    LOG_NORMAL_ log_normal_(mean: f64, std: f64);
}

register!(ops::NORMAL_, Cuda, normal_);
register!(ops::UNIFORM_, Cuda, uniform_);
register!(ops::BERNOULLI__FLOAT, Cuda, bernoulli_float);
register!(ops::RANDOM_, Cuda, random_);
register!(ops::RANDOM__FROM, Cuda, random_from);
register!(ops::RANDOM__TO, Cuda, random_to);

fn definitions(dtype: &str, kind: &str, words: i64) -> String {
    format!("typedef {dtype} T;\n#define {kind}\n#define WORDS {words}\n")
}

/// The program of a kind of numbers. Normal ones have the host's logarithms and sines.
fn source(definitions: &str, kind: &str, words: i64) -> String {
    if kind != NORMAL {
        return program(definitions, &[SOURCE]);
    }
    let is_f64 = words == 2;
    let expression = if is_f64 { normal_expression::<f64>() } else { normal_expression::<f32>() };
    let element = if is_f64 { "double" } else { "float" };
    program(definitions, &[&pair_function("normal_pair", element, &expression.portable(is_f64)), SOURCE])
}

/// Fills with functions of random words, of which each element takes `words`: values follow the order of indices, not that in memory.
fn fill(
    name: &'static str,
    self_: &Tensor,
    (kind, words): (&str, i64),
    draw: &[u64],
    generator: &Generator,
) -> Result<()> {
    refuse_in_capture(name, self_)?;
    // Normal numbers come in pairs.
    let odd = if kind == NORMAL { self_.numel() % 2 } else { 0 };
    let philox = generator.reserve_words(self_.numel().saturating_add(odd), words as u64)?;
    if self_.numel() == 0 {
        return Ok(());
    }
    let out = match self_.is_contiguous() {
        true => self_.clone(),
        false => empty(self_.sizes(), self_.dtype(), self_.device())?,
    };
    let definitions = definitions(name_of(name, out.dtype())?, kind, words);
    guarded(name, &[], &[&out], |gpu| {
        let function =
            gpu.function(&format!("random {definitions}"), || source(&definitions, kind, words))?;
        let arguments = Arguments::new().int(out.numel()).word(philox.seed()).word(philox.start());
        let blocks = ceil_div(out.numel(), 4 / words);
        gpu.launch(function, Grid::of(blocks, 256), &arguments.tensor(&out).structure(draw))
    })?;
    if self_.is_contiguous() { Ok(()) } else { ops::copy_(self_, &out, false) }
}

fn uniform_(
    _: DispatchKeySet,
    self_: &Tensor,
    from: f64,
    to: f64,
    generator: Option<&Generator>,
) -> Result<()> {
    if self_.is_complex() {
        return ops::uniform_(&ops::view_as_real(self_)?, from, to, generator);
    }
    let generator = generator_of(self_, generator)?;
    // The host's kernel checks the arguments.
    distributions::uniform_(&meta(self_)?, from, to, Some(&Generator::new(0)))?;
    let (digits, words) = match self_.dtype() {
        ScalarType::F16 => (11, 1),
        ScalarType::BF16 => (8, 1),
        ScalarType::F32 => (24, 1),
        _ => (53, 2),
    };
    let end = Tensor::full(&[], to, self_.dtype())?.item_scalar()?.to_f64();
    let numbers = [from, to - from, end, 2f64.powi(-digits)].map(f64::to_bits);
    let shift = (32 * words as i32 - digits) as u64;
    let draw: Vec<u64> = numbers.into_iter().chain([shift]).collect();
    fill("uniform_", self_, ("UNIFORM", words), &draw, generator)
}

fn normal_(
    _: DispatchKeySet,
    self_: &Tensor,
    mean: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<()> {
    let generator = generator_of(self_, generator)?;
    // The host's kernel checks the arguments.
    distributions::normal_(&meta(self_)?, mean, std, Some(&Generator::new(0)))?;
    if self_.is_complex() {
        // Each part has half of the variance.
        return ops::normal_(&ops::view_as_real(self_)?, mean, std * FRAC_1_SQRT_2, Some(generator));
    }
    let words = if self_.dtype() == ScalarType::F64 { 2 } else { 1 };
    fill("normal_", self_, (NORMAL, words), &[mean, std].map(f64::to_bits), generator)
}

fn bernoulli_float(_: DispatchKeySet, self_: &Tensor, p: f64, generator: Option<&Generator>) -> Result<()> {
    let generator = generator_of(self_, generator)?;
    distributions::bernoulli_float(&meta(self_)?, p, Some(&Generator::new(0)))?;
    fill("bernoulli_", self_, ("BERNOULLI", 1), &[(p * 2f64.powi(32)).to_bits()], generator)
}

fn random_(_: DispatchKeySet, self_: &Tensor, generator: Option<&Generator>) -> Result<()> {
    fill_integers(self_, &Integers::of_type(self_.dtype())?, generator)
}

fn random_from(
    _: DispatchKeySet,
    self_: &Tensor,
    from: i64,
    to: Option<i64>,
    generator: Option<&Generator>,
) -> Result<()> {
    fill_integers(self_, &distributions::integers_from(self_.dtype(), from, to)?, generator)
}

fn random_to(key: DispatchKeySet, self_: &Tensor, to: i64, generator: Option<&Generator>) -> Result<()> {
    random_from(key, self_, 0, Some(to), generator)
}

fn fill_integers(self_: &Tensor, integers: &Integers, generator: Option<&Generator>) -> Result<()> {
    let generator = generator_of(self_, generator)?;
    if self_.dtype().is_barebones_unsigned() {
        let signed = empty(self_.sizes(), ScalarType::I64, self_.device())?;
        fill_integers(&signed, integers, Some(generator))?;
        return ops::copy_(self_, &signed, false);
    }
    let (lowest, highest) = integers.bounds;
    // All of 2^64 numbers are counted as 0.
    let draw = [integers.low as u64, integers.count as u64, lowest as u64, highest as u64];
    fill("random_", self_, ("INTEGERS", 2), &draw, generator)
}

/// Each launch of a graph would give the numbers of its capture.
fn refuse_in_capture(name: &str, tensor: &Tensor) -> Result<()> {
    graph::refuse(gpu_of(tensor)?.index, "the use of random numbers").map_err(|error| error.in_operator(name))
}

/// Every program of this module, in a type.
pub(super) fn programs(dtype: &str) -> Vec<(String, String)> {
    let is_real = ["float", "double", "float16", "bfloat16"].contains(&dtype);
    let uniform = is_real.then_some(("UNIFORM", if dtype == "double" { 2 } else { 1 }));
    let normal = uniform.map(|(_, words)| (NORMAL, words));
    let all = uniform.into_iter().chain(normal).chain([("BERNOULLI", 1), ("INTEGERS", 2)]);
    let each = all.map(|(kind, words)| {
        let definitions = definitions(dtype, kind, words);
        (format!("random {definitions}"), source(&definitions, kind, words))
    });
    each.collect()
}

register!(ops::MULTINOMIAL, Cuda, multinomial_kernel);
register!(ops::POISSON, Cuda, poisson);
register!(ops::BINOMIAL, Cuda, binomial);

/// The generator that is given, or the default of the device.
fn generator_of<'g>(tensor: &Tensor, given: Option<&'g Generator>) -> Result<&'g Generator> {
    match given {
        Some(generator) => Ok(generator),
        None => Generator::default_of(tensor.device()),
    }
}

fn multinomial_kernel(
    _: DispatchKeySet,
    self_: &Tensor,
    num_samples: i64,
    replacement: bool,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let generator = generator_of(self_, generator)?;
    let here = to_device(self_, Device::CPU)?;
    to_device(&multinomial::multinomial(&here, num_samples, replacement, Some(generator))?, self_.device())
}

fn poisson(_: DispatchKeySet, self_: &Tensor, generator: Option<&Generator>) -> Result<Tensor> {
    let generator = generator_of(self_, generator)?;
    let here = to_device(self_, Device::CPU)?;
    to_device(&poisson_binomial::poisson(&here, Some(generator))?, self_.device())
}

fn binomial(
    _: DispatchKeySet,
    count: &Tensor,
    prob: &Tensor,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let device = if count.device().is_cpu() { prob.device() } else { count.device() };
    let generator = match generator {
        Some(generator) => generator,
        None => Generator::default_of(device)?,
    };
    let (count, prob) = (to_device(count, Device::CPU)?, to_device(prob, Device::CPU)?);
    to_device(&poisson_binomial::binomial(&count, &prob, Some(generator))?, device)
}
