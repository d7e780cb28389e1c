//! Random numbers: drawn on the host from the generator of the device, and copied, so that a seed gives the same numbers on every device.

use super::to_device;
use flambeau_core::{Device, DispatchKeySet, Generator, Result};
use flambeau_ops::native::random::{distributions, multinomial, poisson_binomial};
use flambeau_ops::{Tensor, ops, register};

/// Registers the kernels of the host, which draw there for other devices, with the generator of the tensor's device as default.
macro_rules! drawn {
    ($($operator:ident $kernel:ident($($arg:ident: $ty:ty),*);)*) => {$(
        const _: () = {
            fn kernel(_: DispatchKeySet, self_: &Tensor, $($arg: $ty,)* generator: Option<&Generator>) -> Result<()> {
                let generator = match generator {
                    Some(generator) => generator,
                    None => Generator::default_of(self_.device())?,
                };
                distributions::$kernel(self_, $($arg,)* Some(generator))
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

drawn! {
    UNIFORM_ uniform_(from: f64, to: f64);
    NORMAL_ normal_(mean: f64, std: f64);
    BERNOULLI__FLOAT bernoulli_float(p: f64);
    BERNOULLI__TENSOR bernoulli_tensor(p: &Tensor);
    CAUCHY_ cauchy_(median: f64, sigma: f64);
    EXPONENTIAL_ exponential_(lambd: f64);
    GEOMETRIC_ geometric_(p: f64);
    LOG_NORMAL_ log_normal_(mean: f64, std: f64);
    RANDOM_ random_();
    RANDOM__FROM random_from(from: i64, to: Option<i64>);
    RANDOM__TO random_to(to: i64);
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
