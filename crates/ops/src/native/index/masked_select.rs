//! `masked_select` and `masked_scatter`: elements where a mask is true.

use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::factory::copy;
use crate::native::guarded_slices::{non_aliasing, with_slices};
use crate::native::index::dim_index;
use crate::native::index::gather_scatter;
use crate::native::shape::view;
use crate::native::strided_iter::StridedIter;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{MemoryFormat, Result, ScalarType, bail, ensure, shape};

pub(crate) fn refuse_meta(name: &str, tensor: &Tensor) -> Result<()> {
    ensure!(
        !tensor.device().is_meta(),
        NotImplemented(name),
        "the size of the result depends on values, which a meta tensor does not have"
    );
    Ok(())
}

fn ensure_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == ScalarType::Bool,
        Dtype(name, "mask"),
        "expected BoolTensor for mask but got {}",
        mask.dtype()
    );
    Ok(())
}

/// `a` and `b` expanded to the sizes that they broadcast to.
fn broadcast(name: &str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let sizes = shape::broadcast(a.sizes(), b.sizes()).map_err(|e| e.in_operator(name))?;
    Ok((view::expand(a, &sizes, false)?, view::expand(b, &sizes, false)?))
}

/// The elements where `mask` is true, in row-major order.
pub fn masked_select(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    const NAME: &str = "masked_select";
    ensure_mask(NAME, mask)?;
    refuse_meta(NAME, self_)?;
    let (self_, mask) = broadcast(NAME, self_, mask)?;
    let iter = StridedIter::new(self_.sizes(), [self_.strides(), mask.strides()]);
    dispatch_all_types!(moved, self_.dtype(), NAME, T => {
        type B = <T as ElementBits>::Bits;
        let chosen: Vec<B> = with_slices(NAME, &[&self_, &mask], &[], |s| {
            let (values, mask) = (s.read::<B>(0)?, s.read::<u8>(1)?);
            let mut chosen = Vec::new();
            iter.for_each(|[at, mask_at]| {
                if mask[mask_at as usize] != 0 {
                    scratch::push(&mut chosen, values[at as usize].normalized());
                }
            });
            Ok(chosen)
        })?;
        let made = TensorSpec::like(&self_, &[chosen.len() as i64]).allocate(NAME)?;
        with_slices(NAME, &[], &[&made], |s| {
            s.write::<B>(0)?.copy_from_slice(&chosen);
            Ok(())
        })?;
        Ok(made)
    })
}

/// The gradient of [`masked_select`]: `grad` where `mask` is true, else 0.
pub fn masked_select_backward(grad: &Tensor, input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    // The gradient of the input that is broadcast with the mask; the caller sums it to the sizes of `input`.
    let sizes =
        shape::broadcast(input.sizes(), mask.sizes()).map_err(|e| e.in_operator("masked_select_backward"))?;
    ops::masked_scatter(&gather_scatter::zeros_for(grad, &sizes)?, mask, grad)
}

/// Writes the elements of `source`, in row-major order, to the elements of `self_` where `mask` is true.
pub fn masked_scatter_(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    const NAME: &str = "masked_scatter_";
    ensure_mask(NAME, mask)?;
    dim_index::ensure_written_once(NAME, self_)?;
    ensure!(
        self_.dtype() == source.dtype(),
        Dtype(NAME, "source"),
        "expected self and source to have same dtypes but got {} and {}",
        self_.dtype(),
        source.dtype()
    );
    let mask = view::expand(mask, self_.sizes(), false).map_err(|e| e.in_operator(NAME))?;
    if self_.device().is_meta() {
        return Ok(());
    }
    let (mask, source) = (non_aliasing(&mask, self_)?, non_aliasing(source, self_)?);
    let source = copy::clone(&source, Some(MemoryFormat::Contiguous))?;
    let iter = StridedIter::new(self_.sizes(), [self_.strides(), mask.strides()]);
    dispatch_all_types!(moved, self_.dtype(), NAME, T => {
        type B = <T as ElementBits>::Bits;
        // Checked before the guard for writing is taken, which increments the version.
        with_slices(NAME, &[&mask], &[], |s| {
            let (mask, mut needed) = (s.read::<u8>(0)?, 0);
            iter.for_each(|[_, mask_at]| needed += i64::from(mask[mask_at as usize] != 0));
            ensure!(
                needed <= source.numel(),
                InvalidArgument(NAME, "source"),
                "Number of elements of source < number of ones in mask ({} < {needed})",
                source.numel()
            );
            Ok(())
        })?;
        with_slices(NAME, &[&mask, &source], &[self_], |s| {
            let (mask, from, to) = (s.read::<u8>(0)?, s.read::<B>(1)?, s.write::<B>(0)?);
            let mut from = from.iter();
            iter.for_each(|[at, mask_at]| {
                if mask[mask_at as usize] != 0 && let Some(value) = from.next() {
                    to[at as usize] = *value;
                }
            });
            Ok(())
        })
    })
}

/// As [`masked_scatter_`], into a copy; `self_` and `mask` broadcast against each other.
pub fn masked_scatter(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let (self_, mask) = broadcast("masked_scatter", self_, mask)?;
    let made = copy::clone(&self_, Some(MemoryFormat::Contiguous))?;
    masked_scatter_(&made, &mask, source)?;
    Ok(made)
}

/// The gradient of [`masked_scatter`] with respect to `source`, which has `sizes`: `grad_output` where `mask` is true, then zeros.
pub fn masked_scatter_backward(grad_output: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    const NAME: &str = "masked_scatter_backward";
    let (grad, mask) = broadcast(NAME, grad_output, mask)?;
    let chosen = masked_select(&grad, &mask)?;
    let made = gather_scatter::zeros_for(grad_output, sizes)?;
    let flat = view::view(&made, &[made.numel()])?;
    if chosen.numel() > flat.numel() {
        bail!(Shape(NAME, "sizes"), "{} elements do not fit into sizes {sizes:?}", chosen.numel());
    }
    copy::copy_(&view::slice(&flat, 0, Some(0), Some(chosen.numel()), 1)?, &chosen, false)?;
    Ok(made)
}
