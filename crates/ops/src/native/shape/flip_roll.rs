//! `flip`, `roll` and `rot90`.

use crate::native::element_bits::{ElementBits, RawBits};
use crate::native::factory::copy;
use crate::native::factory::empty_full::dense_strides;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::shape::view;
use crate::native::shape::view::wrap_dims;
use crate::native::strided_iter::StridedIter;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, ensure, shape};

/// Reverses the order of the elements along dimensions `dims`.
pub fn flip(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let dims = wrap_dims("flip", dims, self_.dim())?;
    let made = TensorSpec::like(self_, self_.sizes()).with_strides(dense_strides(self_)?).allocate("flip")?;
    if made.device().is_meta() || made.numel() == 0 {
        return Ok(made);
    }
    // The result is written in the order of its memory.
    let order = memory_order(&made);
    let g = self_.geometry();
    let sizes: DimVec = order.iter().map(|d| g.sizes()[*d]).collect();
    let step = |d: &usize| if dims.contains(d) { -g.strides()[*d] } else { g.strides()[*d] };
    let steps: DimVec = order.iter().map(step).collect();
    let last = |d: &usize| if self_.dim() == 0 { 0 } else { (g.sizes()[*d] - 1) * g.strides()[*d] };
    let start: i64 = dims.iter().map(last).sum();
    let iter = StridedIter::new(&sizes, [&steps]);
    dispatch_all_types!(moved, self_.dtype(), "flip", T => {
        with_slices("flip", &[self_], &[&made], |s| {
            let (from, to) = (s.read::<<T as ElementBits>::Bits>(0)?, s.write::<<T as ElementBits>::Bits>(0)?);
            fill(to, 1, |range, mut part| {
                let step = iter.steps()[0];
                iter.for_each_run(range, |[first], n| {
                    let (row, rest) = std::mem::take(&mut part).split_at_mut(n);
                    part = rest;
                    let first = (start + first) as usize;
                    match step {
                        1 => row.copy_from_slice(&from[first..first + n]),
                        -1 => row.iter_mut().zip(from[first + 1 - n..=first].iter().rev()).for_each(|(to, x)| *to = *x),
                        step => {
                            row.iter_mut().zip(0..).for_each(|(to, j)| *to = from[(first as i64 + j * step) as usize]);
                        }
                    }
                    <T as ElementBits>::Bits::normalize_all(row);
                });
            });
            Ok(())
        })
    })?;
    Ok(made)
}

/// The dimensions of a dense tensor, outermost in memory first.
fn memory_order(dense: &Tensor) -> Vec<usize> {
    let mut order: Vec<usize> = (0..dense.dim()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(dense.strides()[*d]));
    order
}

/// The columns in reverse order.
pub fn fliplr(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Shape("fliplr", "self"), "Input must be >= 2-d.");
    ops::flip(self_, &[1])
}

/// The rows in reverse order.
pub fn flipud(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Shape("flipud", "self"), "Input must be >= 1-d.");
    ops::flip(self_, &[0])
}

/// Shifts elements along dimensions, or in row-major order if none are given; elements beyond the end re-enter at the start.
pub fn roll(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    ensure!(!shifts.is_empty(), InvalidArgument("roll", "shifts"), "`shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = copy::clone(self_, Some(MemoryFormat::Contiguous))?;
        let rolled = roll_dim(&view::view(&flat, &[-1])?, shifts[0], 0)?;
        return view::view(&rolled, self_.sizes());
    }
    ensure!(
        shifts.len() == dims.len(),
        InvalidArgument("roll", "shifts"),
        "shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    ensure!(
        self_.dim() > 0,
        Index("roll", "self"),
        "Dimension specified as {} but tensor has no dimensions",
        dims[0]
    );
    let mut rolled = self_.clone();
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("roll"))?;
        rolled = roll_dim(&rolled, shift, d)?;
    }
    Ok(rolled)
}

fn roll_dim(self_: &Tensor, shift: i64, dim: usize) -> Result<Tensor> {
    let size = self_.sizes().get(dim).copied().unwrap_or(0);
    if size == 0 {
        return copy::clone(self_, Some(MemoryFormat::Contiguous));
    }
    let shift = shift.rem_euclid(size);
    let made = TensorSpec::like(self_, self_.sizes()).allocate("roll")?;
    let part = |t: &Tensor, start, end| view::slice(t, dim as i64, Some(start), Some(end), 1);
    ops::copy_(&part(&made, shift, size)?, &part(self_, 0, size - shift)?, false)?;
    ops::copy_(&part(&made, 0, shift)?, &part(self_, size - shift, size)?, false)?;
    Ok(made)
}

/// A rotation by `k` times 90 degrees in the plane of two dimensions, from the first towards the second.
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.len() == 2,
        InvalidArgument("rot90", "dims"),
        "expected total rotation dims == 2, but got dims = {}",
        dims.len()
    );
    ensure!(
        self_.dim() >= 2,
        Shape("rot90", "self"),
        "expected total dims >= 2, but got total dims = {}",
        self_.dim()
    );
    wrap_dims("rot90: expected rotation dims to be different", dims, self_.dim())?;
    match k.rem_euclid(4) {
        1 => view::transpose(&ops::flip(self_, &dims[1..])?, dims[0], dims[1]),
        2 => ops::flip(self_, dims),
        3 => view::transpose(&ops::flip(self_, &dims[..1])?, dims[0], dims[1]),
        _ => ops::clone(self_, Some(MemoryFormat::Contiguous)),
    }
}
