//! Kernels of operators that write their first argument: what is written takes the tangent's place in the same memory.

use super::call::{any_requires_grad, tensors};
use super::ways;
use crate::grad_mode::is_grad_enabled;
use crate::variable::tangents::{below, is_dual, lies_as, put, tangent};
use crate::variable::view;
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::dispatch::{FromValues, OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};

fn any_dual(given: &[Value]) -> bool {
    given.iter().flat_map(tensors).any(|(_, tensor)| is_dual(tensor))
}

fn plainly(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    let _below = below();
    operator.call_boxed(given).map(drop)
}

fn written(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<Tensor> {
    match given.first() {
        Some(Value::Tensor(self_)) => Ok(self_.clone()),
        _ => bail!(Internal, "{}: expected a tensor to write", operator.name()),
    }
}

/// An operator that has a functional `twin`: the twin's result is copied with its tangent. The twin takes the arguments in the
/// same order, or, where it is given, in `order`.
///
/// # Errors
/// Those of both.
pub(super) fn in_place(
    operator: &'static dyn OperatorInfo,
    twin: &'static dyn OperatorInfo,
    order: &[usize],
    given: &[Value],
) -> Result<()> {
    let self_ = written(operator, given)?;
    // What cannot have a tangent may not take a number with one either, which the operator itself decides.
    if !self_.dtype().is_differentiable() || !any_dual(given) {
        return plainly(operator, given);
    }
    let mut read = given.to_vec();
    if is_grad_enabled() && any_requires_grad(given) {
        // What a node saves must stay as it was.
        read[0] = Value::Tensor(ops::clone(&self_, None)?);
    }
    if !order.is_empty() {
        read = order.iter().filter_map(|place| read.get(*place).cloned()).collect();
    }
    let result = Tensor::from_values(twin.name(), twin.call_boxed(&read)?)?;
    if result.sizes() != self_.sizes() {
        // It says why that is refused.
        plainly(operator, given)?;
        bail!(
            Internal,
            "{}: expected sizes {:?} but got {:?}",
            operator.name(),
            self_.sizes(),
            result.sizes()
        );
    }
    ops::copy_(&self_, &result, false)
}

/// `copy_`: the tangent is copied too.
///
/// # Errors
/// Those of `copy_`.
pub(super) fn copy_(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    let new = match given.get(1) {
        Some(Value::Tensor(src)) => tangent(src)?,
        _ => None,
    };
    plainly(operator, given)?;
    let self_ = written(operator, given)?;
    if self_.dtype().is_differentiable() { write(&self_, new) } else { Ok(()) }
}

/// Gives an output of a custom function its tangent: a new one, or for an input that was written in the place of the one it had.
pub(crate) fn set(output: &Tensor, new: Option<Tensor>, written: bool) -> Result<()> {
    match new {
        new if written => write(output, new),
        Some(new) => put(output, new),
        None => Ok(()),
    }
}

/// Writes a tangent where `self_` has its own; a view of a tensor without one gives it one.
fn write(self_: &Tensor, new: Option<Tensor>) -> Result<()> {
    let before = tangent(self_)?;
    let _below = below();
    let place = match (before, &new) {
        (None, None) => return Ok(()),
        (Some(before), _) => before,
        (None, Some(_)) => {
            let owner = view::base(self_).unwrap_or(self_);
            put(owner, ways::zeros_like(owner)?)?;
            match tangent(self_)? {
                Some(place) => place,
                None => bail!(Internal, "a tangent was put and is not there"),
            }
        }
    };
    match new {
        Some(new) => ops::copy_(&place, &new, false),
        None => ops::zero_(&place),
    }
}

/// An operator that writes what does not depend on what was there, nor on anything with a tangent.
///
/// # Errors
/// Those of the operator.
pub(super) fn overwritten(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    plainly(operator, given)?;
    write(&written(operator, given)?, None)
}

/// An operator that changes how its argument looks at its memory: the tangent, laid out as the argument was, is looked at
/// likewise.
///
/// # Errors
/// Those of the operator; `NotImplemented` where the argument looks at one place twice and its tangent does not.
pub(super) fn view_in_place(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    let self_ = written(operator, given)?;
    let before = tangent(&self_)?;
    let geometry = self_.geometry().clone();
    plainly(operator, given)?;
    let Some(before) = before else { return Ok(()) };
    ensure!(
        lies_as(&before, geometry.strides()),
        NotImplemented,
        "Trying to use forward AD with {} on a tensor that overlaps itself, which has not been implemented yet.",
        operator.name()
    );
    let _below = below();
    let offset = self_.storage_offset() - geometry.storage_offset() + before.storage_offset();
    put(&self_, ops::as_strided(&before, self_.sizes(), self_.strides(), Some(offset))?)
}

/// An operator of which no tangent is known.
///
/// # Errors
/// `NotImplemented` where an argument has a tangent, else those of the operator.
pub(super) fn refused(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    ensure!(
        !any_dual(given),
        NotImplemented,
        "Trying to use forward AD with {} that does not support it because it has not been implemented yet.",
        operator.name()
    );
    plainly(operator, given)
}
