//! Operators of integers whose formulas on the host have a loop that ends by the elements, so that they cannot be traced: `pow`, `gcd` and
//! `lcm`. They are functions of the program instead; numbers that are not integers are left to the host's formulas.

use crate::loops::call_integer_function;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, Scalar, ScalarType, ensure};
use flambeau_ops::dispatch::{Registration, inventory};
use flambeau_ops::native::pointwise::{gcd_lcm_shift, pow};
use flambeau_ops::tensor_iterator::{TensorIterator, iterate};
use flambeau_ops::{Tensor, ops};

/// Registers the three forms of an operator instead of those that trace the host's formula.
macro_rules! integers {
    ($($operator:ident $in_place:ident $out:ident $name:literal $meta:path, $kernel:path:
        ($($arg:ident: $ty:ty),*);)*) => {$(
        const _: () = {
            fn functional(_: DispatchKeySet, self_: &Tensor, $($arg: $ty),*) -> Result<Tensor> {
                iterate::functional($name, |iter| {
                    $meta(iter, self_, $($arg),*)?;
                    $kernel(iter, self_, $($arg),*)
                })
            }

            fn in_place(_: DispatchKeySet, self_: &Tensor, $($arg: $ty),*) -> Result<()> {
                iterate::in_place($name, self_, |iter| {
                    $meta(iter, self_, $($arg),*)?;
                    $kernel(iter, self_, $($arg),*)
                })
            }

            fn into_out(_: DispatchKeySet, self_: &Tensor, $($arg: $ty,)* out: &Tensor) -> Result<()> {
                iterate::out($name, out, |iter| {
                    $meta(iter, self_, $($arg),*)?;
                    $kernel(iter, self_, $($arg),*)
                })
            }

            inventory::submit!(Registration::overriding(&ops::$operator, DispatchKey::Cuda, functional));
            inventory::submit!(Registration::overriding(&ops::$in_place, DispatchKey::Cuda, in_place));
            inventory::submit!(Registration::overriding(&ops::$out, DispatchKey::Cuda, into_out));
        };
    )*};
}

integers! {
    GCD GCD_ GCD_OUT "gcd" gcd_lcm_shift::gcd_meta, gcd: (other: &Tensor);
    LCM LCM_ LCM_OUT "lcm" gcd_lcm_shift::lcm_meta, lcm: (other: &Tensor);
    POW_TENSOR_TENSOR POW__TENSOR POW_TENSOR_TENSOR_OUT "pow" pow::pow_meta, pow_tensor: (exponent: &Tensor);
    POW_TENSOR_SCALAR POW__SCALAR POW_TENSOR_SCALAR_OUT "pow" pow::pow_scalar_meta, pow_scalar: (exponent: Scalar);
}

inventory::submit!(Registration::overriding(&ops::POW_SCALAR, DispatchKey::Cuda, pow_of_scalar));
inventory::submit!(Registration::overriding(&ops::POW_SCALAR_OUT, DispatchKey::Cuda, pow_of_scalar_out));

/// Calls a function of integers, which is not defined for bool.
fn call(iter: &TensorIterator<'_>, function: &'static str, numbers: &[Scalar]) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        dtype != ScalarType::Bool,
        NotImplemented(iter.name(), "self"),
        "\"{}\" not implemented for {dtype}",
        iter.name()
    );
    call_integer_function(iter, function, numbers)
}

fn gcd(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
    iter_is_integral(iter)?;
    call(iter, "gcd_of", &[])
}

fn lcm(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
    iter_is_integral(iter)?;
    call(iter, "lcm_of", &[])
}

fn iter_is_integral(iter: &TensorIterator<'_>) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        dtype.is_integral(true),
        NotImplemented(iter.name(), "self"),
        "\"{}\" not implemented for {dtype}",
        iter.name()
    );
    Ok(())
}

fn pow_tensor(iter: &mut TensorIterator<'_>, self_: &Tensor, exponent: &Tensor) -> Result<()> {
    if iter.common_dtype().is_integral(true) {
        call(iter, "power_of", &[])
    } else {
        pow::pow(iter, self_, exponent)
    }
}

fn pow_scalar(iter: &mut TensorIterator<'_>, self_: &Tensor, exponent: Scalar) -> Result<()> {
    if iter.common_dtype().is_integral(true) {
        call(iter, "power_of", &[exponent])
    } else {
        pow::pow_scalar(iter, self_, exponent)
    }
}

fn pow_of_scalar(_: DispatchKeySet, self_: Scalar, exponent: &Tensor) -> Result<Tensor> {
    iterate::functional("pow", |iter| {
        pow::pow_of_scalar_meta(iter, self_, exponent)?;
        pow_tensor(iter, exponent, exponent)
    })
}

fn pow_of_scalar_out(_: DispatchKeySet, self_: Scalar, exponent: &Tensor, out: &Tensor) -> Result<()> {
    iterate::out("pow", out, |iter| {
        pow::pow_of_scalar_meta(iter, self_, exponent)?;
        pow_tensor(iter, exponent, exponent)
    })
}
