//! Functions of one tensor that are 0 at 0, so that they leave the pattern as it is. They are applied to the values, which are
//! coalesced first, since most functions are not linear.

use super::copies::{coalesce_, with_values};
use crate::convert::coalesce;
use flambeau_core::{DispatchKey, Layout, Result, bail};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{BoxedKernel, BoxedRegistration, Call, Value, inventory};

/// The operator on the values.
struct OnValues;

/// The in-place operator on the values.
struct OnValuesInPlace;

fn operand<'c>(call: &Call<'c>) -> Result<(&'c Tensor, &'c [Value])> {
    match call.arguments {
        [Value::Tensor(tensor), rest @ ..] => Ok((tensor, rest)),
        _ => bail!(Internal(call.operator.name()), "expected a tensor as the first argument"),
    }
}

fn on_values(call: &Call<'_>, values: &Tensor, rest: &[Value]) -> Result<Tensor> {
    let arguments: Vec<Value> = std::iter::once(Value::from(values)).chain(rest.iter().cloned()).collect();
    match call.operator.call_boxed(&arguments)?.into_iter().next() {
        Some(Value::Tensor(result)) => Ok(result),
        // In-place operators return nothing.
        _ => Ok(values.clone()),
    }
}

impl BoxedKernel for OnValues {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let (tensor, rest) = operand(call)?;
        let tensor = if tensor.layout() == Layout::SparseCoo { coalesce(tensor)? } else { tensor.clone() };
        Ok(vec![with_values(&tensor, |values| on_values(call, values, rest))?.into()])
    }
}

impl BoxedKernel for OnValuesInPlace {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let (tensor, rest) = operand(call)?;
        coalesce_(tensor)?;
        if let Some(parts) = tensor.sparse_parts() {
            on_values(call, parts.values(), rest)?;
        }
        Ok(vec![])
    }
}

macro_rules! on_values {
    ($($operator:ident $(, $in_place:ident)?;)*) => {$(
        inventory::submit! { BoxedRegistration::new(&flambeau_ops::ops::$operator, DispatchKey::Sparse, &OnValues) }
        inventory::submit! {
            BoxedRegistration::new(&flambeau_ops::ops::$operator, DispatchKey::SparseCompressed, &OnValues)
        }
        $(
            inventory::submit! {
                BoxedRegistration::new(&flambeau_ops::ops::$in_place, DispatchKey::Sparse, &OnValuesInPlace)
            }
            inventory::submit! {
                BoxedRegistration::new(&flambeau_ops::ops::$in_place, DispatchKey::SparseCompressed, &OnValuesInPlace)
            }
        )?
    )*};
}

on_values! {
    ABS, ABS_;
    ANGLE;
    ASIN, ASIN_;
    ASINH, ASINH_;
    ATAN, ATAN_;
    ATANH, ATANH_;
    CEIL, CEIL_;
    DEG2RAD, DEG2RAD_;
    ERF, ERF_;
    ERFINV, ERFINV_;
    EXPM1, EXPM1_;
    FLOOR, FLOOR_;
    FRAC, FRAC_;
    ISNAN;
    ISINF;
    ISNEGINF;
    ISPOSINF;
    LOG1P, LOG1P_;
    NAN_TO_NUM, NAN_TO_NUM_;
    NEG, NEG_;
    RAD2DEG, RAD2DEG_;
    RELU, RELU_;
    ROUND, ROUND_;
    ROUND_DECIMALS, ROUND__DECIMALS;
    SGN, SGN_;
    SIGN, SIGN_;
    SIGNBIT;
    SIN, SIN_;
    SINH, SINH_;
    SQRT, SQRT_;
    SQUARE, SQUARE_;
    TAN, TAN_;
    TANH, TANH_;
    TRUNC, TRUNC_;
    CONJ_PHYSICAL, CONJ_PHYSICAL_;
}
