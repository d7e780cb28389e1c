//! Random numbers: drawn on the host from the generator of the device, and copied, so that a seed gives the same numbers on every device.

use flambeau_core::{DispatchKeySet, Generator, Result};
use flambeau_ops::native::random::distributions;
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
}
