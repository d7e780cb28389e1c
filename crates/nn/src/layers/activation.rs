//! Activations as modules, for [`Sequential`](crate::Sequential): none has parameters.

use crate::{Module, fields};
use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

/// Modules of one operator and no options: documentation, name, operator.
macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident = $operator:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        impl Module for $name {
            fields!();

            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                ops::$operator(input)
            }
        }
    )*};
}

activations! {
    /// `max(x, 0)`, of every shape.
    ///
    /// ```
    /// use flambeau_nn::{Module, Relu};
    /// use flambeau_ops::Tensor;
    /// assert_eq!(Relu.forward(&Tensor::from([-1.0f32, 2.0]))?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Relu = relu;
    /// The hyperbolic tangent.
    Tanh = tanh;
}
