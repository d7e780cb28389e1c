//! `add_` for gradients and optimizer steps, with a fast path for small tensors without dispatcher and iterator.
#![expect(unsafe_code, reason = "accesses elements under the guards that are taken here")]

use crate::{Tensor, ops};
use flambeau_core::{
    Access, DispatchKey, DispatchKeySet, Element, Result, Scalar, ScalarType, Storage, StridedView,
    apply_thread_keys, shape, with_guards,
};
use std::ops::{AddAssign, Mul};

/// Up to this number of elements dispatcher and iterator take several times as long as locks and sum.
const SMALL_NUMEL: i64 = 256;

/// Adds `from` to `to`, as `add_` does; a backward pass over small tensors computes thousands of such sums.
///
/// # Errors
/// Those of `add_`.
///
/// ```
/// use flambeau_ops::{Tensor, native::pointwise::accumulate::accumulate_};
/// let (sum, gradient) = (Tensor::from_vec(vec![1.0f32, 2.0], &[2])?, Tensor::from_vec(vec![0.5f32, -2.0], &[2])?);
/// accumulate_(&sum, &gradient)?;
/// assert_eq!(sum.to_vec::<f32>()?, [1.5, 0.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[inline]
pub fn accumulate_(to: &Tensor, from: &Tensor) -> Result<()> {
    accumulate_scaled_(to, from, Scalar::Int(1))
}

/// Adds `alpha * from` to `to`, as in a step of an optimizer.
///
/// # Errors
/// Those of `add_`.
pub fn accumulate_scaled_(to: &Tensor, from: &Tensor, alpha: Scalar) -> Result<()> {
    let views = (to.strided_view(), from.strided_view());
    match to.dtype() {
        ScalarType::F32 if dispatches_to_cpu(to.key_set() | from.key_set()) && is_small(views) => {
            add_small::<f32>(views, alpha)
        }
        ScalarType::F64 if dispatches_to_cpu(to.key_set() | from.key_set()) && is_small(views) => {
            add_small::<f64>(views, alpha)
        }
        _ => ops::add__tensor(to, from, alpha),
    }
}

/// Whether the dispatcher would call only the CPU kernels of operators that are not in place and make no views, or of `add_`, for
/// arguments with these keys: it records nothing, and they are neither batched nor of another layout.
pub(in crate::native) fn dispatches_to_cpu(arguments: DispatchKeySet) -> bool {
    // Keys without a kernel for these operators.
    const FALLTHROUGH: DispatchKeySet =
        DispatchKeySet::of(DispatchKey::ADInplaceOrView).union(DispatchKeySet::of(DispatchKey::Profiler));
    apply_thread_keys(arguments).without(FALLTHROUGH) == DispatchKeySet::of(DispatchKey::Cpu)
}

/// Whether both are small and contiguous, of one type and one shape, and do not alias.
fn is_small((to, from): (StridedView<'_>, StridedView<'_>)) -> bool {
    (1..=SMALL_NUMEL).contains(&to.numel())
        && from.dtype() == to.dtype()
        && to.is_contiguous()
        && from.is_contiguous()
        && shape::same(to.sizes(), from.sizes())
        && !Storage::ptr_eq(to.storage(), from.storage())
}

fn add_small<T: Element + AddAssign + Mul<Output = T>>(
    (to, from): (StridedView<'_>, StridedView<'_>),
    alpha: Scalar,
) -> Result<()> {
    let alpha = T::from_scalar(alpha);
    with_guards(&[(to.storage(), Access::Write), (from.storage(), Access::Read)], |guarded| {
        let count = to.numel() as usize;
        // SAFETY: both are contiguous, of type `T`, have `count` elements, are guarded, and do not share a storage.
        let (sums, terms) = unsafe {
            let (sums, terms) = (guarded.ptr(to).cast::<T>(), guarded.ptr(from).cast::<T>());
            (std::slice::from_raw_parts_mut(sums, count), std::slice::from_raw_parts(terms, count))
        };
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += alpha * *term);
    })
    .map_err(|e| e.in_operator("add_"))
}
