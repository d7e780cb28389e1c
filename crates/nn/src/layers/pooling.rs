//! Pooling as modules, of one, two and three dimensions.

use super::check_positive;
use crate::functional::{self, AvgPoolOptions, MaxPoolOptions, Size, Stride};
use crate::{Forward, Module};
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;

/// What both poolings check.
fn check<const N: usize>(kernel: Size<N>, stride: Stride<N>, padding: Size<N>) -> Result<()> {
    kernel.iter().try_for_each(|value| check_positive("a kernel", *value))?;
    if let Stride::Size(sizes) = stride {
        sizes.iter().try_for_each(|value| check_positive("a stride", *value))?;
    }
    for (padding, kernel) in padding.iter().zip(kernel.0) {
        ensure!(
            *padding >= 0 && *padding <= kernel / 2,
            InvalidArgument,
            "expected padding of at most half the kernel {kernel} but got {padding}"
        );
    }
    Ok(())
}

macro_rules! poolings {
    ($($(#[$doc:meta])* $name:ident = $function:ident, $options:ident, [$($alias:ident = $n:literal),*];)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Module)]
        pub struct $name<const N: usize> {
            #[module(skip)]
            kernel: Size<N>,
            #[module(skip)]
            options: $options<N>,
        }

        $(
            #[doc = concat!("[`", stringify!($name), "`] of so many dimensions.")]
            pub type $alias = $name<$n>;
        )*

        impl<const N: usize> $name<N> {
            /// Windows of `kernel`, side by side, without padding.
            ///
            /// # Errors
            /// `InvalidArgument` for a kernel below 1.
            pub fn new(kernel: impl Into<Size<N>>) -> Result<Self> {
                Self::with_options(kernel, $options::default())
            }

            /// As [`new`](Self::new), with the settings of `options`.
            ///
            /// # Errors
            /// `InvalidArgument` for a kernel or stride below 1, and for padding above half the kernel.
            pub fn with_options(kernel: impl Into<Size<N>>, options: $options<N>) -> Result<Self> {
                let kernel = kernel.into();
                check(kernel, options.stride, options.padding).map_err(|e| e.context(stringify!($name)))?;
                Ok(Self { kernel, options })
            }
        }

        impl<const N: usize> Forward for $name<N> {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                functional::$function(input, self.kernel, &self.options)
            }
        }
    )*};
}

poolings! {
    /// The largest value of each window: `[n, c, h, w]` to `[n, c, (h + 2 padding - kernel) / stride + 1, ..]`.
    ///
    /// ```
    /// use flambeau_nn::{Forward, MaxPool2d};
    /// use flambeau_ops::Tensor;
    /// let image = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// assert_eq!(MaxPool2d::new(2)?.forward(&image)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    MaxPool = max_pool, MaxPoolOptions, [MaxPool1d = 1, MaxPool2d = 2, MaxPool3d = 3];
    /// The mean of each window, padding counted: `[n, c, h, w]` to `[n, c, (h + 2 padding - kernel) / stride + 1, ..]`.
    ///
    /// ```
    /// use flambeau_nn::{AvgPool2d, Forward};
    /// use flambeau_ops::Tensor;
    /// let image = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// assert_eq!(AvgPool2d::new(2)?.forward(&image)?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    AvgPool = avg_pool, AvgPoolOptions, [AvgPool1d = 1, AvgPool2d = 2, AvgPool3d = 3];
}

macro_rules! adaptive_poolings {
    ($($(#[$doc:meta])* $name:ident, |$input:ident, $sizes:ident| $call:expr, [$($alias:ident = $n:literal),*];)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Module)]
        pub struct $name<const N: usize>(
            /// How many windows.
            #[module(skip)]
            pub Size<N>,
        );

        $(
            #[doc = concat!("[`", stringify!($name), "`] of so many dimensions.")]
            pub type $alias = $name<$n>;
        )*

        impl<const N: usize> $name<N> {
            /// So many windows in each dimension.
            pub fn new(sizes: impl Into<Size<N>>) -> Self {
                $name(sizes.into())
            }
        }

        impl<const N: usize> Forward for $name<N> {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let ($input, $sizes) = (input, self.0);
                $call
            }
        }
    )*};
}

adaptive_poolings! {
    /// The means of so many windows, however large: `[n, c, ..]` to `[n, c, sizes]`.
    AdaptiveAvgPool, |input, sizes| functional::adaptive_avg_pool(input, sizes),
        [AdaptiveAvgPool1d = 1, AdaptiveAvgPool2d = 2, AdaptiveAvgPool3d = 3];
    /// The largest values of so many windows, however large: `[n, c, ..]` to `[n, c, sizes]`.
    AdaptiveMaxPool, |input, sizes| functional::adaptive_max_pool(input, sizes).map(|(values, _)| values),
        [AdaptiveMaxPool1d = 1, AdaptiveMaxPool2d = 2, AdaptiveMaxPool3d = 3];
}
