//! `masked_select` and `masked_scatter`: elements where a mask is true.

use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::factory::copy;
use crate::native::guarded_slices::{non_aliasing, with_slices};
use crate::native::index::dim_index;
use crate::native::index::gather_scatter;
use crate::native::index::index_select;
use crate::native::shape::view;
use crate::native::strided_iter::StridedIter;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, bail, ensure, fallible, shape};
use std::hint::select_unpredictable;

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
    let source =
        if source.is_contiguous() { source } else { copy::clone(&source, Some(MemoryFormat::Contiguous))? };
    // Checked before the guard for writing is taken, which increments the version.
    let needed = count_true(NAME, &mask)?;
    ensure!(
        needed <= source.numel(),
        InvalidArgument(NAME, "source"),
        "Number of elements of source < number of ones in mask ({} < {needed})",
        source.numel()
    );
    if let Some(row) = same_rows(&mask)? {
        return write_columns(self_, &row, &source, needed);
    }
    let iter = StridedIter::new(self_.sizes(), [self_.strides(), mask.strides()]);
    dispatch_all_types!(moved, self_.dtype(), NAME, T => {
        type B = <T as ElementBits>::Bits;
        with_slices(NAME, &[&mask, &source], &[self_], |s| {
            write_chosen::<B>(&iter, s.read(0)?, s.read(1)?, s.write(0)?);
            Ok(())
        })
    })
}

/// How many elements are true; one of those that are expanded stands for all.
fn count_true(name: &str, mask: &Tensor) -> Result<i64> {
    let is_expanded = |d: &usize| mask.strides()[*d] == 0 && mask.sizes()[*d] > 0;
    let sizes: DimVec = (0..mask.dim()).map(|d| if is_expanded(&d) { 1 } else { mask.sizes()[d] }).collect();
    let copies: i64 = (0..mask.dim()).filter(is_expanded).map(|d| mask.sizes()[d]).product();
    let iter = StridedIter::new(&sizes, [mask.strides()]);
    with_slices(name, &[mask], &[], |s| {
        let (mask, [step], mut count) = (s.read::<u8>(0)?, iter.steps(), 0);
        iter.for_each_run(0..iter.numel(), |[at], n| {
            let mask = &mask[at as usize..];
            count += match step {
                1 => mask[..n].iter().map(|byte| i64::from(*byte != 0)).sum::<i64>(),
                _ => (0..n).map(|j| i64::from(mask[j * step as usize] != 0)).sum(),
            };
        });
        Ok(count * copies)
    })
}

/// A row of the mask, if all rows of the last dimension are one that is expanded.
fn same_rows(mask: &Tensor) -> Result<Option<Tensor>> {
    let Some((&last, outer)) = mask.strides().split_last() else { return Ok(None) };
    let rows: i64 = mask.sizes()[..outer.len()].iter().product();
    let are_same = (0..outer.len()).all(|d| outer[d] == 0 || mask.sizes()[d] == 1);
    if !are_same || rows < 2 {
        return Ok(None);
    }
    Ok(Some(mask.alias_as(&mask.sizes()[outer.len()..], &[last], mask.storage_offset())?))
}

/// Writes dense elements to the columns of `self_` where `mask`, a row, is true.
fn write_columns(self_: &Tensor, mask: &Tensor, source: &Tensor, needed: i64) -> Result<()> {
    let mask = mask.to_vec::<bool>()?;
    let columns = fallible::collect((0i64..).zip(&mask).filter(|(_, is_true)| **is_true).map(|(at, _)| at))?;
    let mut sizes = DimVec::from_slice(self_.sizes());
    let (Some(last), count) = (sizes.last_mut(), columns.len() as i64) else { return Ok(()) };
    *last = count;
    let source = view::slice(&view::view(source, &[source.numel()])?, 0, Some(0), Some(needed), 1)?;
    index_select::index_copy_(self_, -1, &Tensor::from_vec(columns, &[count])?, &view::view(&source, &sizes)?)
}

/// Writes the elements of `from` in their order where the mask is true.
fn write_chosen<B: RawBits>(iter: &StridedIter<2>, mask: &[u8], from: &[B], to: &mut [B]) {
    let ([step, mask_step], mut left) = (iter.steps(), from);
    iter.for_each_run(0..iter.numel(), |[at, mask_at], n| {
        let (to, mask) = (&mut to[at as usize..], &mask[mask_at as usize..]);
        if [step, mask_step] == [1, 0] {
            let count = if mask[0] == 0 { 0 } else { n.min(left.len()) };
            let (chosen, rest) = left.split_at(count);
            to[..count].copy_from_slice(chosen);
            left = rest;
            return;
        }
        for j in 0..n {
            // Without a branch, which nobody would predict; after the last element nothing is chosen.
            let (to, is_true) = (&mut to[j * step as usize], mask[j * mask_step as usize] != 0);
            let Some(next) = left.first() else { return };
            *to = select_unpredictable(is_true, *next, *to);
            left = &left[usize::from(is_true)..];
        }
    });
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
