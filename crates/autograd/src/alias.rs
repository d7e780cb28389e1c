//! Aliases of tensors without their history.

use flambeau_core::{DispatchKey, DispatchKeySet, Result, ThreadKeysGuard};
use flambeau_ops::{Tensor, ops};

/// Another handle on the same elements, and so on the same version counter, but with no history, hooks or gradient.
#[inline]
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    if is_wrapper(tensor) { of_wrapper(tensor) } else { Ok(of_elements(tensor)) }
}

/// The same for a tensor that is no wrapper.
#[inline]
pub(crate) fn of_elements(tensor: &Tensor) -> Tensor {
    Tensor::from_impl(tensor.impl_().shallow_copy())
}

/// Whether a front end's class computes with the tensor, which may have no elements of its own.
#[inline]
pub(crate) fn is_wrapper(tensor: &Tensor) -> bool {
    tensor.key_set().has(DispatchKey::Python)
}

/// Whether a kernel must not be called past the dispatcher, since a class computes with one of the two.
#[inline]
pub(crate) fn refuses_kernels(a: &Tensor, b: &Tensor) -> bool {
    (a.key_set() | b.key_set()).has(DispatchKey::Python)
}

/// What the class of a wrapper makes of `detach`.
#[cold]
#[inline(never)]
fn of_wrapper(tensor: &Tensor) -> Result<Tensor> {
    const ABOVE: DispatchKeySet = DispatchKeySet::of(DispatchKey::ADInplaceOrView)
        .union(DispatchKeySet::of(DispatchKey::Autograd))
        .union(DispatchKeySet::of(DispatchKey::ForwardGrad));
    let _below = ThreadKeysGuard::exclude(ABOVE);
    ops::detach(tensor)
}
