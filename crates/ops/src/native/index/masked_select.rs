//! Elements named by truth values, and the places of those that are not zero.

use crate::native::guarded_slices::{apart, with_slices};
use crate::native::element_bits::{Moved, Numeric, Stored};
use crate::native::strided_iter::Walk;
use crate::native::factory::copy;
use crate::native::index::gather_scatter;
use crate::native::index::dim_index;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{MemoryFormat, Result, ScalarType, bail, ensure, fallible, shape};

fn refuse_meta(name: &str, tensor: &Tensor) -> Result<()> {
    ensure!(
        !tensor.device().is_meta(),
        NotImplemented,
        "{name}: the size of the result depends on values, which a tensor on meta has not"
    );
    Ok(())
}

/// The indices of the elements that are not zero, a row for each, in row-major order.
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    refuse_meta("nonzero", self_)?;
    let rank = self_.dim();
    let walk = Walk::new(self_.sizes(), [self_.strides()]);
    // A NaN is no zero; a place is its number in row-major order.
    let places = dispatch_all_types!(all, self_.dtype(), "nonzero", T => {
        with_slices("nonzero", &[self_], &[], |s| {
            let values = s.read::<<T as Stored>::Number>(0)?;
            let (mut places, mut number) = (Vec::new(), 0i64);
            walk.each(|[at]| {
                if !values[at as usize].is_zero() {
                    scratch::push(&mut places, number);
                }
                number += 1;
            });
            Ok(places)
        })
    })?;
    // The indices along one dimension lie together, as PyTorch has them.
    let count = places.len();
    let mut columns = fallible::filled(0i64, count * rank).map_err(|e| e.context("nonzero"))?;
    for (number, mut place) in places.into_iter().enumerate() {
        for (d, size) in self_.sizes().iter().enumerate().rev() {
            columns[d * count + number] = place % size;
            place /= size;
        }
    }
    view::transpose(&Tensor::from_vec(columns, &[rank as i64, count as i64])?, 0, 1)
}

/// Another name of [`nonzero`].
pub fn argwhere(self_: &Tensor) -> Result<Tensor> {
    ops::nonzero(self_)
}

/// The indices of the elements that are not zero, a vector for each dimension.
pub fn nonzero_numpy(self_: &Tensor) -> Result<Vec<Tensor>> {
    let self_ = if self_.dim() == 0 { ops::unsqueeze(self_, 0)? } else { self_.clone() };
    ops::unbind_int(&ops::nonzero(&self_)?, 1)
}

fn ensure_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == ScalarType::Bool,
        Dtype,
        "{name}: expected BoolTensor for mask but got {}",
        mask.dtype()
    );
    Ok(())
}

/// `a` and `b` expanded to the sizes that they broadcast to.
fn broadcast(name: &str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    let sizes = shape::broadcast(a.sizes(), b.sizes()).map_err(|e| e.context(name))?;
    Ok((view::expand(a, &sizes, false)?, view::expand(b, &sizes, false)?))
}

/// The elements where `mask` is true, in row-major order.
pub fn masked_select(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    const NAME: &str = "masked_select";
    ensure_mask(NAME, mask)?;
    refuse_meta(NAME, self_)?;
    let (self_, mask) = broadcast(NAME, self_, mask)?;
    let walk = Walk::new(self_.sizes(), [self_.strides(), mask.strides()]);
    dispatch_all_types!(all, self_.dtype(), NAME, T => {
        type B = <T as Stored>::Bits;
        let chosen: Vec<B> = with_slices(NAME, &[&self_, &mask], &[], |s| {
            let (values, mask) = (s.read::<B>(0)?, s.read::<u8>(1)?);
            let mut chosen = Vec::new();
            walk.each(|[at, mask_at]| {
                if mask[mask_at as usize] != 0 {
                    scratch::push(&mut chosen, values[at as usize].settled());
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

/// `grad` at the places where `mask` is true, in the sizes of `input`.
pub fn masked_select_backward(grad: &Tensor, input: &Tensor, mask: &Tensor) -> Result<Tensor> {
    // Input and mask broadcast against each other: the gradient is that of the broadcast input, added up.
    let sizes =
        shape::broadcast(input.sizes(), mask.sizes()).map_err(|e| e.context("masked_select_backward"))?;
    ops::masked_scatter(&gather_scatter::zeros_for(grad, &sizes)?, mask, grad)
}

/// Writes elements of `source`, in its order, where `mask` is true.
pub fn masked_scatter_(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    const NAME: &str = "masked_scatter_";
    ensure_mask(NAME, mask)?;
    dim_index::ensure_written_once(NAME, self_)?;
    ensure!(
        self_.dtype() == source.dtype(),
        Dtype,
        "{NAME}: expected self and source to have same dtypes but got {} and {}",
        self_.dtype(),
        source.dtype()
    );
    let mask = view::expand(mask, self_.sizes(), false).map_err(|e| e.context(NAME))?;
    if self_.device().is_meta() {
        return Ok(());
    }
    let (mask, source) = (apart(&mask, self_)?, apart(source, self_)?);
    let source = copy::clone(&source, Some(MemoryFormat::Contiguous))?;
    let walk = Walk::new(self_.sizes(), [self_.strides(), mask.strides()]);
    dispatch_all_types!(all, self_.dtype(), NAME, T => {
        type B = <T as Stored>::Bits;
        // Counted before the guard for writing, which counts as a write.
        with_slices(NAME, &[&mask], &[], |s| {
            let (mask, mut wanted) = (s.read::<u8>(0)?, 0);
            walk.each(|[_, mask_at]| wanted += i64::from(mask[mask_at as usize] != 0));
            ensure!(
                wanted <= source.numel(),
                InvalidArgument,
                "{NAME}: Number of elements of source < number of ones in mask ({} < {wanted})",
                source.numel()
            );
            Ok(())
        })?;
        with_slices(NAME, &[&mask, &source], &[self_], |s| {
            let (mask, from, to) = (s.read::<u8>(0)?, s.read::<B>(1)?, s.write::<B>(0)?);
            let mut from = from.iter();
            walk.each(|[at, mask_at]| {
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

/// What `source` of [`masked_scatter`] receives: `grad_output` where `mask` is true, then zeros, in `sizes`.
pub fn masked_scatter_backward(grad_output: &Tensor, mask: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    const NAME: &str = "masked_scatter_backward";
    let (grad, mask) = broadcast(NAME, grad_output, mask)?;
    let chosen = masked_select(&grad, &mask)?;
    let made = gather_scatter::zeros_for(grad_output, sizes)?;
    let flat = view::view(&made, &[made.numel()])?;
    if chosen.numel() > flat.numel() {
        bail!(Shape, "{NAME}: {} elements do not fit into sizes {sizes:?}", chosen.numel());
    }
    copy::copy_(&view::slice(&flat, 0, Some(0), Some(chosen.numel()), 1)?, &chosen, false)?;
    Ok(made)
}
