//! Images made smaller.

use super::check_positive;
use crate::{Module, fields};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// What both poolings check.
fn check(kernel: [i64; 2], stride: [i64; 2], padding: [i64; 2]) -> Result<()> {
    kernel.iter().try_for_each(|value| check_positive("a kernel", *value))?;
    stride.iter().try_for_each(|value| check_positive("a stride", *value))?;
    for (padding, kernel) in padding.iter().zip(kernel) {
        ensure!(
            *padding >= 0 && *padding <= kernel / 2,
            InvalidArgument,
            "expected padding of at most half the kernel {kernel} but got {padding}"
        );
    }
    Ok(())
}

macro_rules! pooling {
    ($(#[$doc:meta])* $name:ident, |$module:ident, $input:ident| $call:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            kernel: [i64; 2],
            stride: [i64; 2],
            padding: [i64; 2],
        }

        impl $name {
            /// Windows of `kernel`, side by side, without padding.
            ///
            /// # Errors
            /// `InvalidArgument` for a kernel below 1.
            pub fn new(kernel: [i64; 2]) -> Result<Self> {
                Self::with_stride(kernel, kernel, [0, 0])
            }

            /// Windows that are `stride` apart, with padding on each side.
            ///
            /// # Errors
            /// `InvalidArgument` for a kernel or stride below 1, and for padding above half the kernel.
            pub fn with_stride(kernel: [i64; 2], stride: [i64; 2], padding: [i64; 2]) -> Result<Self> {
                check(kernel, stride, padding).map_err(|e| e.context(stringify!($name)))?;
                Ok(Self { kernel, stride, padding })
            }
        }

        impl Module for $name {
            fields!();

            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                let ($module, $input) = (self, input);
                $call
            }
        }
    };
}

pooling! {
    /// The largest value of each window: `[n, c, h, w]` to `[n, c, (h + 2 padding - kernel) / stride + 1, ..]`.
    ///
    /// ```
    /// use flambeau_nn::{MaxPool2d, Module};
    /// use flambeau_ops::Tensor;
    /// let image = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// assert_eq!(MaxPool2d::new([2, 2])?.forward(&image)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    MaxPool2d,
    |pool, input| ops::max_pool2d(input, &pool.kernel, &pool.stride, &pool.padding, &[1, 1], false)
}

pooling! {
    /// The mean of each window, padding counted: `[n, c, h, w]` to `[n, c, (h + 2 padding - kernel) / stride + 1, ..]`.
    ///
    /// ```
    /// use flambeau_nn::{AvgPool2d, Module};
    /// use flambeau_ops::Tensor;
    /// let image = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// assert_eq!(AvgPool2d::new([2, 2])?.forward(&image)?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    AvgPool2d,
    |pool, input| ops::avg_pool2d(input, &pool.kernel, &pool.stride, &pool.padding, false, true, None)
}
