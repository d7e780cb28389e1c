//! `var`, `std`, `var_mean` and `std_mean`.

use super::complex_parts;
use super::reduced_spec::{mask_of, reduced_spec};
use crate::loops::reduce::moments;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ensure};

/// The `correction` that `unbiased` stands for: 1 (Bessel's correction) or 0.
fn correction_of(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(i64::from(unbiased)))
}

fn check_floating_point(name: &str, self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype().is_differentiable(),
        Dtype(name, "self"),
        "std and var only support floating point and complex dtypes, but got {}",
        self_.dtype()
    );
    Ok(())
}

/// The variance of complex numbers, the sum of those of their parts, or its square root.
fn spread_of_complex(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
    root: bool,
) -> Result<Tensor> {
    let [re, im] = complex_parts::parts(self_)?;
    let of = |part: &Tensor| ops::var_correction(part, dim, correction, keepdim);
    let sum = ops::add_tensor(&of(&re)?, &of(&im)?, Scalar::Int(1))?;
    if root { ops::sqrt(&sum) } else { Ok(sum) }
}

macro_rules! var_std {
    ($($name:literal, $root:literal:
        $spread:ident $spread_meta:ident $all:ident $dim:ident $ops:ident,
        $mean_name:literal $with_mean:ident $mean_all:ident $mean_dim:ident $mean_ops:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($spread), "()`].")]
        pub fn $spread_meta(
            self_: &Tensor,
            dim: Option<&[i64]>,
            _correction: Option<Scalar>,
            keepdim: bool,
        ) -> Result<TensorSpec> {
            check_floating_point($name, self_)?;
            Ok(reduced_spec($name, self_, dim, keepdim, self_.dtype().to_real())?.converted_to_out())
        }

        #[doc = concat!("`", $name, "` along dimensions, with the sum of squared deviations divided by `n - correction`; the default is 1.")]
        pub fn $spread(
            self_: &Tensor,
            dim: Option<&[i64]>,
            correction: Option<Scalar>,
            keepdim: bool,
            out: &Tensor,
        ) -> Result<()> {
            if self_.dtype().is_complex() {
                return ops::copy_(out, &spread_of_complex(self_, dim, correction, keepdim, $root)?, false);
            }
            let mean = TensorSpec::like(out, out.sizes()).allocate($name)?;
            let correction = correction.unwrap_or(Scalar::Int(1)).to_f64();
            moments(self_, out, &mean, mask_of($name, self_, dim)?, correction, $root)
        }

        #[doc = concat!("`", $name, "` of all elements.")]
        pub fn $all(self_: &Tensor, unbiased: bool) -> Result<Tensor> {
            ops::$ops(self_, None, correction_of(unbiased), false)
        }

        #[doc = concat!("`", $name, "` along dimensions.")]
        pub fn $dim(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<Tensor> {
            ops::$ops(self_, dim, correction_of(unbiased), keepdim)
        }

        #[doc = concat!("`", $name, "` and the mean along dimensions.")]
        pub fn $with_mean(
            self_: &Tensor,
            dim: Option<&[i64]>,
            correction: Option<Scalar>,
            keepdim: bool,
        ) -> Result<(Tensor, Tensor)> {
            check_floating_point($mean_name, self_)?;
            if self_.dtype().is_complex() {
                let spread = spread_of_complex(self_, dim, correction, keepdim, $root)?;
                return Ok((spread, ops::mean_dim(self_, dim, keepdim, None)?));
            }
            let spec = reduced_spec($mean_name, self_, dim, keepdim, self_.dtype())?;
            let (spread, mean) = (spec.allocate($mean_name)?, spec.allocate($mean_name)?);
            if !self_.device().is_meta() {
                let correction = correction.unwrap_or(Scalar::Int(1)).to_f64();
                moments(self_, &spread, &mean, mask_of($mean_name, self_, dim)?, correction, $root)?;
            }
            Ok((spread, mean))
        }

        #[doc = concat!("`", $name, "` and the mean of all elements.")]
        pub fn $mean_all(self_: &Tensor, unbiased: bool) -> Result<(Tensor, Tensor)> {
            ops::$mean_ops(self_, None, correction_of(unbiased), false)
        }

        #[doc = concat!("`", $name, "` and the mean along dimensions.")]
        pub fn $mean_dim(
            self_: &Tensor,
            dim: Option<&[i64]>,
            unbiased: bool,
            keepdim: bool,
        ) -> Result<(Tensor, Tensor)> {
            ops::$mean_ops(self_, dim, correction_of(unbiased), keepdim)
        }
    )*};
}

var_std! {
    "var", false: var var_meta var_all var_dim var_correction,
        "var_mean" var_mean var_mean_all var_mean_dim var_mean_correction;
    "std", true: std std_meta std_all std_dim std_correction,
        "std_mean" std_mean std_mean_all std_mean_dim std_mean_correction;
}
