//! Kernels of operators that write their first argument. The new tangent is written to the memory of the former one, which views
//! share.

use super::call::{any_requires_grad, tensors};
use crate::batched;
use crate::grad_mode::is_grad_enabled;
use crate::variable::tangents::{below, has_strides, is_dual, set_tangent, tangent};
use crate::variable::view;
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::dispatch::{FromValues, OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};

fn any_dual(given: &[Value]) -> bool {
    given.iter().flat_map(tensors).any(|(_, tensor)| is_dual(tensor))
}

fn call_below(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    let _below = below();
    operator.call_boxed(given).map(drop)
}

fn written(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<Tensor> {
    match given.first() {
        Some(Value::Tensor(self_)) => Ok(self_.clone()),
        _ => bail!(Internal, "{}: expected a tensor to write", operator.name()),
    }
}

/// An operator with the functional variant `functional`, whose result is copied with its tangent. The functional variant takes the
/// arguments in the same order, or, if `order` is not empty, in that order.
///
/// # Errors
/// Those of both.
pub(super) fn in_place(
    operator: &'static dyn OperatorInfo,
    functional: &'static dyn OperatorInfo,
    order: &[usize],
    given: &[Value],
) -> Result<()> {
    let self_ = written(operator, given)?;
    // An integer tensor has no tangent. Whether it may be written with floating point numbers is checked by the operator itself.
    if !self_.dtype().is_differentiable() || !any_dual(given) {
        return call_below(operator, given);
    }
    let mut read = given.to_vec();
    if is_grad_enabled() && any_requires_grad(given) {
        // The values that a node saves must not change.
        read[0] = Value::Tensor(ops::clone(&self_, None)?);
    }
    if !order.is_empty() {
        read = order.iter().filter_map(|index| read.get(*index).cloned()).collect();
    }
    let result = Tensor::from_values(functional.name(), functional.call_boxed(&read)?)?;
    if result.sizes() != self_.sizes() {
        // The operator itself fails with the error that explains this.
        call_below(operator, given)?;
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
    call_below(operator, given)?;
    let self_ = written(operator, given)?;
    if self_.dtype().is_differentiable() { write(&self_, new) } else { Ok(()) }
}

/// Sets the tangent of an output of a custom function. If the output is an input that was `written`, the new tangent is written to
/// the memory of the former one.
pub(crate) fn set(output: &Tensor, new: Option<Tensor>, written: bool) -> Result<()> {
    match new {
        new if written => write(output, new),
        Some(new) => set_tangent(output, new),
        None => Ok(()),
    }
}

/// Writes a tangent to the memory of the one that `self_` has. If there is none, `self_` or the base of which it is a view first gets
/// a tangent of zeros.
fn write(self_: &Tensor, new: Option<Tensor>) -> Result<()> {
    let before = tangent(self_)?;
    let _below = below();
    let target = match (before, &new) {
        (None, None) => return Ok(()),
        (Some(before), _) => before,
        (None, Some(new)) => {
            let owner = view::base(self_).unwrap_or(self_);
            set_tangent(owner, batched::zeros(owner, new)?)?;
            match tangent(self_)? {
                Some(target) => target,
                None => bail!(Internal, "a tangent was set but is not there"),
            }
        }
    };
    match new {
        Some(new) => ops::copy_(&target, &new, false),
        None => ops::zero_(&target),
    }
}

/// An operator that writes values which depend neither on the former values nor on anything with a tangent.
///
/// # Errors
/// Those of the operator.
pub(super) fn overwritten(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    call_below(operator, given)?;
    write(&written(operator, given)?, None)
}

/// An operator that changes the geometry of its argument: the tangent, which had the same strides, gets the same geometry.
///
/// # Errors
/// Those of the operator; `NotImplemented` where elements of the argument overlap and those of its tangent do not.
pub(super) fn view_in_place(operator: &'static dyn OperatorInfo, given: &[Value]) -> Result<()> {
    let self_ = written(operator, given)?;
    let before = tangent(&self_)?;
    let geometry = self_.geometry().clone();
    call_below(operator, given)?;
    let Some(before) = before else { return Ok(()) };
    ensure!(
        has_strides(&before, geometry.strides()),
        NotImplemented,
        "Trying to use forward AD with {} on a tensor that overlaps itself, which has not been implemented yet.",
        operator.name()
    );
    let _below = below();
    let offset = self_.storage_offset() - geometry.storage_offset();
    set_tangent(&self_, batched::as_strided(&before, self_.sizes(), self_.strides(), offset)?)
}

/// An operator for which forward mode is not implemented.
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
    call_below(operator, given)
}
