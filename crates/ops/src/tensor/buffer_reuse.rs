//! Operands that the caller has given away: their memory takes the result where nobody can see that.

use super::Tensor;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, apply_thread_keys, creation_keys};
use std::ops::Deref;

/// Bytes from which on reuse pays: shorter results find warm memory anyway.
const LEAST: usize = 1 << 16;

/// An operand, and whether the caller keeps it.
pub enum MaybeDonated<'a> {
    /// Somebody else's.
    Lent(&'a Tensor),
    /// This call's alone, unless there are other handles.
    Given(Tensor),
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

/// A pointwise operator of two tensors, and the same that writes to a third.
pub(super) type Functional = fn(&Tensor, &Tensor) -> Result<Tensor>;
pub(super) type WithOut = fn(&Tensor, &Tensor, &Tensor) -> Result<()>;

/// The operator's result, in the memory of an operand that was given away if the result would look just like it.
#[inline]
pub(super) fn compute(a: MaybeDonated<'_>, b: MaybeDonated<'_>, functional: Functional, with_out: WithOut) -> Result<Tensor> {
    if takes_result(&a, &b) {
        with_out(&a, &b, &a)?;
        return Ok(a.clone());
    }
    if takes_result(&b, &a) {
        with_out(&a, &b, &b)?;
        return Ok(b.clone());
    }
    functional(&a, &b)
}

/// Whether the result of `held` and `other` may be written over `held`: nobody else sees its elements, which are the allocator's,
/// and a fresh result would have its sizes, strides, type and keys.
#[inline]
fn takes_result(held: &MaybeDonated<'_>, other: &Tensor) -> bool {
    let MaybeDonated::Donated(held) = held else { return false };
    is_large(held)
        && held.is_sole_owner()
        && held.storage().is_resizable()
        && is_plain(held, other)
        && gives_its_type(held, other)
        && gives_its_geometry(held, other)
}

fn is_large(tensor: &Tensor) -> bool {
    tensor.numel() as usize * tensor.dtype().size() >= LEAST
}

/// Whether nothing is recorded, carried along or intercepted, and a tensor made now would have the same keys.
fn is_plain(held: &Tensor, other: &Tensor) -> bool {
    let fresh = DispatchKeySet::of(DispatchKey::Cpu) | creation_keys();
    let passed = fresh | DispatchKeySet::of(DispatchKey::Profiler);
    held.key_set() == fresh
        && held.impl_().autograd_meta().is_none()
        && held.impl_().extension().is_none()
        && apply_thread_keys(held.key_set() | other.key_set()).without(passed).is_empty()
}

fn gives_its_type(held: &Tensor, other: &Tensor) -> bool {
    let ranks_below = other.is_wrapped_number() && !other.dtype().is_complex();
    held.dtype().is_floating_point() && (held.dtype() == other.dtype() || ranks_below)
}

/// Whether both are row-major, as the result then is, and `other` is broadcast to `held`.
fn gives_its_geometry(held: &Tensor, other: &Tensor) -> bool {
    let sizes = || held.sizes().iter().rev().zip(other.sizes().iter().rev());
    held.is_contiguous()
        && other.is_contiguous()
        && other.dim() <= held.dim()
        && sizes().all(|(held, other)| held == other || *other == 1)
}
