//! Buffer reuse: the result of an operator is written over an operand that the caller donated, where nobody else can see the operand
//! (JAX's buffer donation).

use super::Tensor;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, apply_thread_keys, creation_keys};
use std::ops::Deref;

/// Bytes from which on reuse is faster: the allocator has memory in the caches for smaller results.
const MIN_BYTES: usize = 1 << 16;

/// An operand, borrowed or donated by the caller.
pub enum MaybeDonated<'a> {
    /// The caller keeps it.
    Borrowed(&'a Tensor),
    /// The caller gave up its handle; there may be others.
    Donated(Tensor),
}

impl Deref for MaybeDonated<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            MaybeDonated::Borrowed(tensor) => tensor,
            MaybeDonated::Donated(tensor) => tensor,
        }
    }
}

/// A pointwise operator of two tensors.
pub(super) type Functional = fn(&Tensor, &Tensor) -> Result<Tensor>;
/// Its `out=` form.
pub(super) type WithOut = fn(&Tensor, &Tensor, &Tensor) -> Result<()>;

/// The operator's result, written over a donated operand if the result would have its sizes, strides, type and keys.
#[inline]
pub(super) fn compute(
    a: MaybeDonated<'_>,
    b: MaybeDonated<'_>,
    functional: Functional,
    with_out: WithOut,
) -> Result<Tensor> {
    if is_reusable(&a, &b) {
        with_out(&a, &b, &a)?;
        return Ok(a.clone());
    }
    if is_reusable(&b, &a) {
        with_out(&a, &b, &b)?;
        return Ok(b.clone());
    }
    functional(&a, &b)
}

/// Whether the result of `operand` and `other` may be written over `operand`: that is donated, nobody else has its elements, which the
/// library allocated, and a new result would have its sizes, strides, type and keys.
#[inline]
fn is_reusable(operand: &MaybeDonated<'_>, other: &Tensor) -> bool {
    let MaybeDonated::Donated(operand) = operand else { return false };
    is_large(operand)
        && operand.is_sole_owner()
        && operand.storage().is_resizable()
        && has_keys_of_result(operand, other)
        && has_dtype_of_result(operand, other)
        && has_geometry_of_result(operand, other)
}

fn is_large(tensor: &Tensor) -> bool {
    tensor.numel() as usize * tensor.dtype().size() >= MIN_BYTES
}

/// Whether nothing is recorded for backward, forward mode or another key, and a tensor made now would have the same keys.
fn has_keys_of_result(operand: &Tensor, other: &Tensor) -> bool {
    let fresh = DispatchKeySet::of(DispatchKey::Cpu) | creation_keys();
    let passed = fresh | DispatchKeySet::of(DispatchKey::Profiler);
    operand.key_set() == fresh
        && operand.impl_().autograd_meta().is_none()
        && operand.impl_().extension().is_none()
        && apply_thread_keys(operand.key_set() | other.key_set()).without(passed).is_empty()
}

/// Whether the operands promote to the type of this one.
fn has_dtype_of_result(operand: &Tensor, other: &Tensor) -> bool {
    let ranks_below = other.is_wrapped_number() && !other.dtype().is_complex();
    operand.dtype().is_floating_point() && (operand.dtype() == other.dtype() || ranks_below)
}

/// Whether both are row-major, as the result then is, and `other` is broadcast to this operand.
fn has_geometry_of_result(operand: &Tensor, other: &Tensor) -> bool {
    let sizes = || operand.sizes().iter().rev().zip(other.sizes().iter().rev());
    operand.is_contiguous()
        && other.is_contiguous()
        && other.dim() <= operand.dim()
        && sizes().all(|(operand, other)| operand == other || *other == 1)
}
