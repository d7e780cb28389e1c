//! The tangent of a tensor. A tensor has a slot of its own, or, if it is a view, the corresponding part of its base's tangent.

use super::as_strided::in_parts;
use super::meta::{Variable, add_autograd_key, variable, variable_or_init};
use super::view;
use crate::graph::dual_level::{Slot, is_dual_level_open};
use crate::{alias, batched, factory};
use flambeau_core::{
    DispatchKey, DispatchKeySet, Result, ThreadKeysGuard, apply_thread_keys, bail, ensure, shape,
};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};
use std::sync::Arc;

/// Until the guard is dropped, calls on this thread skip the dispatch key `ForwardGrad`, and propagate no tangents.
pub(crate) fn below() -> ThreadKeysGuard {
    ThreadKeysGuard::exclude(DispatchKeySet::of(DispatchKey::ForwardGrad))
}

/// Whether a guard of [`below`] exists on this thread, or no level is open: calls propagate no tangents.
pub(crate) fn is_below() -> bool {
    let key = DispatchKey::ForwardGrad;
    !is_dual_level_open() || !apply_thread_keys(DispatchKeySet::of(key)).has(key)
}

fn own_slot(variable: &Variable) -> Option<Arc<Slot>> {
    variable.state.lock().tangent.clone().filter(|slot| slot.is_current())
}

/// The slot of `tensor` itself, in the level that is open.
pub(crate) fn slot(tensor: &Tensor) -> Option<Arc<Slot>> {
    own_slot(variable(tensor)?)
}

/// Whether `tensor` has a tangent, of its own or through its base.
pub(crate) fn is_dual(tensor: &Tensor) -> bool {
    let has = |variable: &Variable| own_slot(variable).is_some_and(|slot| slot.is_filled());
    let Some(own) = variable(tensor) else { return false };
    has(own) || own.view.get().and_then(|view| variable(&view.base)).is_some_and(has)
}

/// The tangent of `tensor`: its own, or, of a view, the corresponding part of its base's tangent.
///
/// # Errors
/// Those of `as_strided`.
pub(crate) fn tangent(tensor: &Tensor) -> Result<Option<Tensor>> {
    let own = |tensor: &Tensor| slot(tensor).and_then(|slot| slot.get());
    if let Some(tangent) = own(tensor) {
        return Ok(Some(tangent));
    }
    let Some(base) = view::base(tensor) else { return Ok(None) };
    let Some(of_base) = own(base) else { return Ok(None) };
    if base.is_complex() != tensor.is_complex() {
        return part_in_other_type(&of_base, base, tensor).map(Some);
    }
    strided_part(&of_base, base, tensor.sizes(), tensor.strides(), tensor.storage_offset()).map(Some)
}

/// The part of the tangent of a base where one of the two, `base` and `view`, counts complex numbers and the other their parts.
#[cold]
fn part_in_other_type(of_base: &Tensor, base: &Tensor, view: &Tensor) -> Result<Tensor> {
    let _below = below();
    if base.is_complex() {
        let (parts, of_parts) = (ops::view_as_real(base)?, ops::view_as_real(of_base)?);
        return strided_part(&of_parts, &parts, view.sizes(), view.strides(), view.storage_offset());
    }
    let g = in_parts(view.geometry())?;
    ops::view_as_complex(&strided_part(of_base, base, g.sizes(), g.strides(), g.storage_offset())?)
}

/// The part of `tangent` that corresponds to `as_strided` of `primal` with this geometry. The tangent has the strides of `primal`.
pub(crate) fn strided_part(
    tangent: &Tensor,
    primal: &Tensor,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<Tensor> {
    let _below = below();
    batched::as_strided(tangent, sizes, strides, offset - primal.storage_offset())
}

/// Sets the tangent of `tensor`. If its slot is still empty, the slot is filled: saved aliases of the tensor share it.
///
/// # Errors
/// Those of copying, where the tangent has other strides than the tensor.
pub(crate) fn set_tangent(tensor: &Tensor, tangent: Tensor) -> Result<()> {
    let tangent = laid_out_like(tensor, tangent)?;
    let Some(variable) = variable_or_init(tensor, Variable::default) else {
        bail!(Autograd, "the tangents of this tensor are kept by another crate");
    };
    add_autograd_key(tensor);
    let rejected = match own_slot(variable) {
        Some(slot) => slot.fill(tangent),
        None => Some(tangent),
    };
    if let Some(tangent) = rejected {
        replace(variable, Slot::new(Some(tangent)));
    }
    Ok(())
}

fn replace(variable: &Variable, slot: Arc<Slot>) {
    let before = variable.state.lock().tangent.replace(slot);
    drop(before);
}

/// Whether `tensor` has these strides. Strides of dimensions with fewer than two elements do not matter.
pub(crate) fn has_strides(tensor: &Tensor, strides: &[i64]) -> bool {
    let (sizes, own) = (tensor.sizes(), tensor.strides());
    (0..sizes.len()).all(|dim| sizes[dim] < 2 || own[dim] == strides[dim])
}

/// The tangent with the strides of its tensor, so that every view of the tensor has a corresponding view of the tangent.
fn laid_out_like(tensor: &Tensor, tangent: Tensor) -> Result<Tensor> {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    if has_strides(&tangent, strides) || tensor.numel() == 0 {
        return Ok(tangent);
    }
    let _below = below();
    let is_dense = shape::is_non_overlapping_and_dense(sizes, strides);
    if !is_dense && shape::has_internal_overlap(sizes, strides) {
        return Ok(tangent);
    }
    if is_batched(&tangent) {
        return batched::copy_strided(&tangent, strides);
    }
    let copy = if is_dense {
        factory::empty_strided(sizes, strides, tangent.dtype(), tangent.device())?
    } else {
        let extent = shape::extent(sizes, strides)?.unwrap_or(0) + 1;
        let memory = ops::new_zeros(&tangent, &[extent], None, None, None, None)?;
        ops::as_strided(&memory, sizes, strides, Some(0))?
    };
    ops::copy_(&copy, &tangent, false)?;
    Ok(copy)
}

/// The slot for an alias of `tensor` that a node saves. That of an output is empty, and filled when the tangent is known.
///
/// # Errors
/// Those of [`tangent`].
pub(crate) fn shared_slot(tensor: &Tensor, is_output: bool) -> Result<Option<Arc<Slot>>> {
    if !is_dual_level_open() {
        return Ok(None);
    }
    if let Some(slot) = slot(tensor) {
        return Ok(Some(slot));
    }
    if let Some(tangent) = tangent(tensor)? {
        return Ok(Some(Slot::new(Some(tangent))));
    }
    let variable = if is_output { variable_or_init(tensor, Variable::default) } else { None };
    Ok(variable.map(|variable| {
        let slot = Slot::new(None);
        replace(variable, slot.clone());
        slot
    }))
}

/// Attaches a slot to `tensor`, whether it is filled yet or not.
pub(crate) fn attach(tensor: &Tensor, slot: Arc<Slot>) {
    if let Some(variable) = variable_or_init(tensor, Variable::default) {
        replace(variable, slot);
    }
}

/// An alias of `tensor` with this slot and no history.
///
/// # Errors
/// Those of creating an alias.
pub(crate) fn alias_with(tensor: &Tensor, slot: Arc<Slot>) -> Result<Tensor> {
    let alias = alias::alias(tensor)?;
    attach(&alias, slot);
    Ok(alias)
}

/// Refuses an `out=` call of `operator`, which is its name, on tensors with tangents.
#[inline]
pub(crate) fn check_out(operator: &str, inputs: &[&Tensor]) -> Result<()> {
    if is_dual_level_open() { refuse_duals(operator, inputs) } else { Ok(()) }
}

#[cold]
fn refuse_duals(operator: &str, inputs: &[&Tensor]) -> Result<()> {
    ensure!(
        !inputs.iter().any(|input| is_dual(input)),
        NotImplemented,
        "Trying to use forward AD with {}_out that does not support it because it is an out= function",
        operator.split('.').next().unwrap_or_default()
    );
    Ok(())
}
