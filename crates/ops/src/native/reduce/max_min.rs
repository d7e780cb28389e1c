//! `max`, `min`, `amax`, `amin`, `argmax`, `argmin` and `aminmax`. NaN wins over every number. Indices are those of the first of equal
//! elements.

use super::reduced_spec::{mask_of, reduced_spec};
use crate::loops::reduce::{
    Maximum, Minimum, arg_extreme, computing_type, extreme_with_index, extremes_fold, ordered_fold,
};
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, bail, ensure, shape};

/// Refuses to reduce dimensions without elements, which have no maximum and no minimum.
fn check_not_empty(name: &str, self_: &Tensor, dim: &[i64]) -> Result<()> {
    if self_.numel() != 0 {
        return Ok(());
    }
    ensure!(
        !dim.is_empty(),
        InvalidArgument,
        operator = name,
        argument = "dim",
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the \
         'dim' argument."
    );
    for &dim in dim {
        let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
        ensure!(
            self_.sizes().get(d) != Some(&0),
            Index,
            operator = name,
            argument = "dim",
            "{name}(): Expected reduction dim {d} to have non-zero size."
        );
    }
    Ok(())
}

macro_rules! max_min {
    ($($name:literal $all_name:literal, $fold:ident, $largest:literal:
        $values:ident $values_meta:ident $all:ident $all_meta:ident $dim:ident $dim_meta:ident
        $arg_name:literal $arg:ident $arg_meta:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($values), "`].")]
        pub fn $values_meta(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<TensorSpec> {
            check_not_empty($name, self_, dim)?;
            reduced_spec($name, self_, Some(dim), keepdim, self_.dtype())
        }

        #[doc = concat!("`", $name, "`: the ", $all_name, "imum along dimensions.")]
        pub fn $values(self_: &Tensor, dim: &[i64], _keepdim: bool, out: &Tensor) -> Result<()> {
            let kernel = computing_type(self_.dtype());
            ordered_fold(self_, out, mask_of($name, self_, Some(dim))?, kernel, $fold::of(kernel))
        }

        #[doc = concat!("Shape and type of [`", stringify!($all), "`].")]
        pub fn $all_meta(self_: &Tensor) -> Result<TensorSpec> {
            check_not_empty($all_name, self_, &[])?;
            Ok(reduced_spec($all_name, self_, None, false, self_.dtype())?.converted_to_out())
        }

        #[doc = concat!("`", $all_name, "`: the ", $all_name, "imum of all elements.")]
        pub fn $all(self_: &Tensor, out: &Tensor) -> Result<()> {
            $values(self_, &[], false, out)
        }

        #[doc = concat!("Shapes and types of [`", stringify!($dim), "`].")]
        pub fn $dim_meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
            let spec = reduced_spec($all_name, self_, Some(&[dim]), keepdim, self_.dtype())?;
            check_not_empty($all_name, self_, &[dim])?;
            Ok((spec.clone(), spec.with_dtype(ScalarType::I64)))
        }

        #[doc = concat!("The ", $all_name, "imum along a dimension, and its index.")]
        pub fn $dim(self_: &Tensor, dim: i64, _keepdim: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
            extreme_with_index(self_, values, indices, mask_of($all_name, self_, Some(&[dim]))?, $largest)
        }

        #[doc = concat!("Shape and type of [`", stringify!($arg), "`].")]
        pub fn $arg_meta(self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<TensorSpec> {
            arg_meta($arg_name, self_, dim, keepdim)
        }

        #[doc = concat!("The index of the ", $all_name, "imum along a dimension, or of all elements in row-major order.")]
        pub fn $arg(self_: &Tensor, dim: Option<i64>, keepdim: bool, out: &Tensor) -> Result<()> {
            arg($arg_name, self_, dim, keepdim, out, $largest)
        }
    )*};
}

max_min! {
    "amax" "max", Maximum, true: amax amax_meta max max_meta max_dim max_dim_meta "argmax" argmax argmax_meta;
    "amin" "min", Minimum, false: amin amin_meta min min_meta min_dim min_dim_meta "argmin" argmin argmin_meta;
}

fn arg_meta(name: &str, self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<TensorSpec> {
    if self_.dtype() == ScalarType::Bool {
        bail!(
            NotImplemented,
            operator = name,
            argument = "self",
            "\"{name}_cpu\" not implemented for 'Bool'"
        );
    }
    let dims = dim.map(|dim| [dim]);
    let dims = dims.as_ref().map(<[i64; 1]>::as_slice);
    let spec = reduced_spec(name, self_, dims, keepdim, ScalarType::I64)?;
    check_not_empty(name, self_, dims.unwrap_or(&[]))?;
    Ok(spec)
}

fn arg(
    name: &str,
    self_: &Tensor,
    dim: Option<i64>,
    keepdim: bool,
    out: &Tensor,
    largest: bool,
) -> Result<()> {
    if let Some(dim) = dim {
        return arg_extreme(self_, out, mask_of(name, self_, Some(&[dim]))?, largest);
    }
    let flat = crate::native::shape::view::reshape(self_, &[-1])?;
    let ones = if keepdim { vec![1; self_.dim()] } else { vec![] };
    let out = ops::view(out, &ones)?;
    let single = ops::view(&out, &[])?;
    arg_extreme(&flat, &single, mask_of(name, &flat, Some(&[0]))?, largest)
}

/// Shapes and types of [`aminmax`].
pub fn aminmax_meta(self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(TensorSpec, TensorSpec)> {
    let spec = match dim {
        Some(dim) => {
            let spec = reduced_spec("aminmax", self_, Some(&[dim]), keepdim, self_.dtype())?;
            check_not_empty("aminmax", self_, &[dim])?;
            spec
        }
        None => {
            ensure!(
                self_.numel() != 0,
                InvalidArgument,
                operator = "aminmax",
                argument = "dim",
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            );
            reduced_spec("aminmax", self_, None, keepdim, self_.dtype())?
        }
    };
    Ok((spec.clone(), spec))
}

/// The minimum and the maximum along a dimension, or of all elements.
pub fn aminmax(self_: &Tensor, dim: Option<i64>, _keepdim: bool, min: &Tensor, max: &Tensor) -> Result<()> {
    let dims = dim.map(|dim| [dim]);
    let mask = mask_of("aminmax", self_, dims.as_ref().map(<[i64; 1]>::as_slice))?;
    extremes_fold(self_, [min, max], mask, computing_type(self_.dtype()))
}

/// Elementwise maximum.
pub fn max_other(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::maximum(self_, other)
}

/// Elementwise minimum.
pub fn min_other(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::minimum(self_, other)
}
