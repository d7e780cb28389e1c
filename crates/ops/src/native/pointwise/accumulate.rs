//! The sums of gradients: `add_`, which for a few numbers goes straight to the elements.
#![expect(unsafe_code, reason = "element access behind the guards that are taken here")]

use crate::{Tensor, ops};
use flambeau_core::{
    Access, DispatchKey, DispatchKeySet, Element, Result, Scalar, ScalarType, Storage, StridedView,
    apply_thread_keys, shape, with_guards,
};
use std::ops::{AddAssign, Mul};

/// Up to here the way through dispatcher and iterator takes several times as long as locks and sum.
const FEW: i64 = 256;

/// Adds `from` to `to`, as `add_` does: a backward pass over small tensors makes such sums by the thousand.
///
/// # Errors
/// Those of `add_`.
///
/// ```
/// use flambeau_ops::{Tensor, native::accumulate::accumulate_};
/// let (sum, gradient) = (Tensor::from_vec(vec![1.0f32, 2.0], &[2])?, Tensor::from_vec(vec![0.5f32, -2.0], &[2])?);
/// accumulate_(&sum, &gradient)?;
/// assert_eq!(sum.to_vec::<f32>()?, [1.5, 0.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[inline]
pub fn accumulate_(to: &Tensor, from: &Tensor) -> Result<()> {
    accumulate_scaled_(to, from, Scalar::Int(1))
}

/// Adds `alpha` times `from`: a step of an optimiser.
///
/// # Errors
/// Those of `add_`.
pub fn accumulate_scaled_(to: &Tensor, from: &Tensor, alpha: Scalar) -> Result<()> {
    let views = (to.strided_view(), from.strided_view());
    match to.dtype() {
        ScalarType::F32 if is_seen_by_none_else(to, from) && is_plain(views) => add_few::<f32>(views, alpha),
        ScalarType::F64 if is_seen_by_none_else(to, from) && is_plain(views) => add_few::<f64>(views, alpha),
        _ => ops::add__tensor(to, from, alpha),
    }
}

/// Whether no one but the CPU's kernel would be asked.
fn is_seen_by_none_else(to: &Tensor, from: &Tensor) -> bool {
    const SEEN_BY_NO_KERNEL: DispatchKeySet =
        DispatchKeySet::of(DispatchKey::ADInplaceOrView).union(DispatchKeySet::of(DispatchKey::Profiler));
    let keys = apply_thread_keys(to.key_set() | from.key_set()).without(SEEN_BY_NO_KERNEL);
    keys == DispatchKeySet::of(DispatchKey::Cpu)
}

/// Whether a few elements of one type meet one by one, in memory of their own.
fn is_plain((to, from): (StridedView<'_>, StridedView<'_>)) -> bool {
    (1..=FEW).contains(&to.numel())
        && from.dtype() == to.dtype()
        && to.is_contiguous()
        && from.is_contiguous()
        && shape::same(to.sizes(), from.sizes())
        && !Storage::ptr_eq(to.storage(), from.storage())
}

fn add_few<T: Element + AddAssign + Mul<Output = T>>(
    (to, from): (StridedView<'_>, StridedView<'_>),
    alpha: Scalar,
) -> Result<()> {
    let alpha = T::from_scalar(alpha);
    with_guards(&[(to.storage(), Access::Write), (from.storage(), Access::Read)], |guarded| {
        let count = to.numel() as usize;
        // SAFETY: both are contiguous, of this type and of so many elements, guarded, and in storages of their own.
        let (sums, terms) = unsafe {
            let (sums, terms) = (guarded.ptr(to).cast::<T>(), guarded.ptr(from).cast::<T>());
            (std::slice::from_raw_parts_mut(sums, count), std::slice::from_raw_parts(terms, count))
        };
        sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += alpha * *term);
    })
    .map_err(|e| e.context("add_"))
}
