//! Values left out at random.

use crate::functional::{self, Mode};
use crate::{Forward, Module, Training};
use flambeau_core::Result;
use flambeau_ops::Tensor;

macro_rules! dropouts {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Module)]
        pub struct $name {
            #[module(skip)]
            p: f64,
            training: Training,
        }

        impl $name {
            /// With this probability.
            ///
            /// # Errors
            /// `InvalidArgument` unless it is from 0 to 1.
            pub fn new(p: f64) -> Result<Self> {
                functional::check_probability(stringify!($name), p)?;
                Ok($name { p, training: Training::new() })
            }
        }

        impl Forward for $name {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                functional::$function(input, self.p, Mode::from(&self.training))
            }
        }
    )*};
}

dropouts! {
    /// In training, sets each value to zero with probability `p` and divides the rest by `1 - p`; in evaluation, does nothing:
    /// Srivastava et al., "Dropout", 2014. Of every shape.
    ///
    /// ```
    /// use flambeau_nn::{Dropout, Forward, Module};
    /// use flambeau_ops::Tensor;
    /// let (dropout, x) = (Dropout::new(0.5)?, Tensor::ones(&[100], ())?);
    /// let zeros = dropout.forward(&x)?.to_vec::<f32>()?.iter().filter(|x| **x == 0.0).count();
    /// assert!(zeros > 20 && zeros < 80);
    /// dropout.eval();
    /// assert!(dropout.forward(&x)?.equal(&x)?);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    Dropout = dropout;
    /// [`Dropout`] of whole channels of `[n, c, ..]`: PyTorch's `Dropout1d`, `Dropout2d` and `Dropout3d`.
    FeatureDropout = feature_dropout;
    /// [`Dropout`] for what `Selu` follows: mean 0 and variance 1 stay. Klambauer et al., 2017.
    AlphaDropout = alpha_dropout;
    /// [`AlphaDropout`] of whole channels.
    FeatureAlphaDropout = feature_alpha_dropout;
}
