//! Conversions from and to types without kernels of their own, through types that have them: u16 and u32 through i64, u64 through i64 or
//! a floating point type, floats of eight bits through f32, and complex32 part by part.

use super::steps::{CastTo, Direct, Each, InOrder, Parts, RealPart, Step, Then, ToBool, ToComplex};
use super::{Convert, between_reals, has_vectors};
use crate::dispatch_all_types;
use crate::dispatch_types::not_implemented;
use crate::vectorized::Convert as ConvertElement;
use flambeau_core::float8::{F8E4M3FN, F8E5M2, F8E8M0FNU};
use flambeau_core::{Element, Result, ScalarType};
use half::f16;

/// The conversion between two types of which one has no kernels.
///
/// # Errors
/// `NotImplemented` for a type without storage.
#[cold]
pub(super) fn converter(from: ScalarType, to: ScalarType) -> Result<Convert> {
    match from {
        ScalarType::U16 => onward::<Each<u16, i64>, i64>(to),
        ScalarType::U32 => onward::<Each<u32, i64>, i64>(to),
        ScalarType::U64 if to.is_integral(true) => between_reals(ScalarType::I64, with_same_bits(to)),
        ScalarType::U64 => of_u64::<Each<u64, f32>, Each<u64, f64>>(to),
        ScalarType::F8E4M3FN => onward::<Each<F8E4M3FN, f32>, f32>(to),
        ScalarType::F8E5M2 => onward::<Each<F8E5M2, f32>, f32>(to),
        ScalarType::F8E8M0FNU => onward::<Each<F8E8M0FNU, f32>, f32>(to),
        ScalarType::Complex32 => match to {
            ScalarType::Complex32 => made::<Parts<f16, f16>>(),
            ScalarType::Complex64 => made::<Parts<f16, f32>>(),
            ScalarType::Complex128 => made::<Parts<f16, f64>>(),
            ScalarType::Bool => made::<ToBool<f16>>(),
            to => onward::<RealPart<f16, f32>, f32>(to),
        },
        ScalarType::Complex64 if to == ScalarType::Complex32 => made::<Parts<f32, f16>>(),
        ScalarType::Complex128 if to == ScalarType::Complex32 => made::<Parts<f64, f16>>(),
        ScalarType::Complex64 => to_stored::<RealPart<f32, f32>, f32>(to),
        ScalarType::Complex128 => to_stored::<RealPart<f64, f64>, f64>(to),
        from if from.is_integral(true) && to.is_integral(true) => between_reals(from, with_same_bits(to)),
        from => dispatch_all_types!(all, from, "conversion", F => to_stored::<Direct<F, F>, F>(to)),
    }
}

/// The conversion to i64 that keeps the order of u64, from a type whose values u64 holds or wraps.
///
/// # Errors
/// `NotImplemented` for a type that does not promote to u64.
#[cold]
pub(super) fn in_order(from: ScalarType) -> Result<Convert> {
    match from {
        ScalarType::U64 => made::<Each<u64, InOrder>>(),
        ScalarType::U16 => made::<Then<Each<u16, i64>, Each<u64, InOrder>>>(),
        ScalarType::U32 => made::<Then<Each<u32, i64>, Each<u64, InOrder>>>(),
        from => {
            dispatch_all_types!(bits, from, "conversion", F => made::<Then<Direct<F, i64>, Each<u64, InOrder>>>())
        }
    }
}

/// The conversion back, to any type.
///
/// # Errors
/// `NotImplemented` for a type without storage.
#[cold]
pub(super) fn out_of_order(to: ScalarType) -> Result<Convert> {
    type Value = Each<InOrder, u64>;
    match with_same_bits(to) {
        to if to.is_integral(true) => {
            dispatch_all_types!(bits, to, "conversion", T => made::<Then<Value, Direct<i64, T>>>())
        }
        to => of_u64::<Then<Value, Each<u64, f32>>, Then<Value, Each<u64, f64>>>(to),
    }
}

/// The conversion from i64 to an unsigned type, which keeps the low bits, and then to any type.
///
/// # Errors
/// `NotImplemented` for a type without storage.
#[cold]
pub(super) fn modulo(dtype: ScalarType, to: ScalarType) -> Result<Convert> {
    match dtype {
        ScalarType::U16 => onward::<Then<Direct<i64, i16>, Each<u16, i64>>, i64>(to),
        ScalarType::U32 => onward::<Then<Direct<i64, i32>, Each<u32, i64>>, i64>(to),
        dtype => converter(dtype, to),
    }
}

fn made<S: Step>() -> Result<Convert> {
    Ok(S::run as Convert)
}

/// The type of the same size whose conversions from integers give the same bits, for an unsigned type; others stay.
fn with_same_bits(dtype: ScalarType) -> ScalarType {
    match dtype {
        ScalarType::U16 => ScalarType::I16,
        ScalarType::U32 => ScalarType::I32,
        ScalarType::U64 => ScalarType::I64,
        other => other,
    }
}

/// From u64 to floating point and complex numbers, given its values in two types: rounded once, without another type between them.
fn of_u64<F32: Step, F64: Step>(to: ScalarType) -> Result<Convert> {
    match to {
        ScalarType::F64 => made::<F64>(),
        ScalarType::Complex128 => made::<Then<F64, ToComplex<f64, f64>>>(),
        to => onward::<F32, f32>(to),
    }
}

/// The conversion to `to` after `A`, which makes elements of `F`.
fn onward<A: Step, F: ConvertElement + Element>(to: ScalarType) -> Result<Convert> {
    match to {
        ScalarType::Complex64 => made::<Then<A, ToComplex<F, f32>>>(),
        ScalarType::Complex128 => made::<Then<A, ToComplex<F, f64>>>(),
        to if has_vectors(to) => {
            dispatch_all_types!(all, to, "conversion", T => made::<Then<A, Direct<F, T>>>())
        }
        to => to_stored::<A, F>(to),
    }
}

/// [`onward`] to a type without kernels.
fn to_stored<A: Step, F: ConvertElement + Element>(to: ScalarType) -> Result<Convert> {
    match to {
        // The low bits of an i16, also where a floating point number does not fit, as in PyTorch.
        ScalarType::U16 => made::<Then<A, Direct<F, i16>>>(),
        ScalarType::U32 => made::<Then<A, Then<Direct<F, i64>, Direct<i64, i32>>>>(),
        ScalarType::U64 if F::SCALAR_TYPE.is_integral(true) => made::<Then<A, Direct<F, i64>>>(),
        ScalarType::U64 => made::<Then<A, Then<Direct<F, f64>, Each<f64, u64>>>>(),
        ScalarType::F8E4M3FN => to_float8::<A, F, F8E4M3FN>(),
        ScalarType::F8E5M2 => to_float8::<A, F, F8E5M2>(),
        ScalarType::F8E8M0FNU => to_float8::<A, F, F8E8M0FNU>(),
        ScalarType::Complex32 => made::<Then<A, ToComplex<F, f16>>>(),
        other => Err(not_implemented(&"conversion", other)),
    }
}

fn to_float8<A: Step, F: ConvertElement, E>() -> Result<Convert>
where
    f32: CastTo<E>,
{
    made::<Then<A, Then<Direct<F, f32>, Each<f32, E>>>>()
}
