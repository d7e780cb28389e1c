//! A step of Adam for the rows of a parameter that a sparse gradient has.

use super::arguments::{check_bounds, contiguous, indices, parts, prefetch_elements, ranges};
use super::segments::WORK;
use crate::native::guarded_slices::with_slices;
use crate::parallel::for_each_task;
use crate::structured::ensure_written_once;
use crate::vectorized::{FloatElement, with_processor_vectors};
use crate::{Tensor, dispatch_all_types, ops};
use bytemuck::Pod;
use flambeau_core::{Device, MemoryFormat, Result, ensure, shape};
use std::ops::{Add, Div, Mul, Range, Sub};

/// How many rows ahead their elements are prefetched.
const AHEAD: usize = 4;

/// Changes the rows of `self_` and of its means that `rows` names, in ascending order, by their gradient `grad`. Only these are accessed.
#[expect(clippy::too_many_arguments, reason = "the state and the options of an optimizer")]
pub fn sparse_adam_(
    self_: &Tensor,
    exp_avg: &Tensor,
    exp_avg_sq: &Tensor,
    rows: &Tensor,
    grad: &Tensor,
    lr: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    step: f64,
) -> Result<()> {
    const NAME: &str = "_sparse_adam_";
    let rows = indices(NAME, "rows", rows)?;
    for (argument, tensor) in [("self", self_), ("exp_avg", exp_avg), ("exp_avg_sq", exp_avg_sq)] {
        ensure!(
            tensor.dim() > 0 && tensor.sizes() == self_.sizes() && tensor.dtype() == grad.dtype(),
            Shape(NAME, argument),
            "expected rows of {} of sizes {:?} but got {}",
            grad.dtype(),
            self_.sizes(),
            tensor.signature()
        );
        ensure_written_once(tensor)?;
    }
    ensure!(
        grad.dim() == self_.dim()
            && grad.sizes()[0] == rows.numel()
            && grad.sizes()[1..] == self_.sizes()[1..],
        Shape(NAME, "grad"),
        "expected a row of sizes {:?} for each of {} rows but got {}",
        &self_.sizes()[1..],
        rows.numel(),
        grad.signature()
    );
    let tensors = [self_, exp_avg, exp_avg_sq];
    if self_.device().is_meta() {
        return Ok(());
    }
    if !tensors.iter().all(|tensor| tensor.is_contiguous()) {
        return by_copies(self_, exp_avg, exp_avg_sq, &rows, grad, lr, beta1, beta2, eps, weight_decay, step);
    }
    let (grad, width) = (contiguous(grad, grad.dtype())?, shape::numel(&self_.sizes()[1..])? as usize);
    let factors = [
        1.0 - beta1,
        1.0 - beta2,
        eps,
        weight_decay,
        lr * (1.0 - beta2.powf(step)).sqrt() / (1.0 - beta1.powf(step)),
    ];
    // Before tensors are guarded for writing, so that a call that fails leaves their versions, and then under the guards.
    let check = |rows: &[i64]| check_rows(NAME, rows, self_.sizes()[0]);
    with_slices(NAME, &[&rows], &[], |s| check(s.read(0)?))?;
    dispatch_all_types!(wide_floats, grad.dtype(), NAME, T => {
        with_slices(NAME, &[&rows, &grad], &[self_, exp_avg, exp_avg_sq], |s| {
            let rows = s.read::<i64>(0)?;
            check(rows)?;
            let step = Step { factors: factors.map(T::from_f64), width };
            step.all(rows, s.read::<T>(1)?, [s.write::<T>(0)?, s.write::<T>(1)?, s.write::<T>(2)?]);
            Ok(())
        })
    })
}

/// [`sparse_adam_`] of tensors that are on another device or not contiguous, by copies that are written back.
#[expect(clippy::too_many_arguments, reason = "the state and the options of an optimizer")]
pub fn by_copies(
    self_: &Tensor,
    exp_avg: &Tensor,
    exp_avg_sq: &Tensor,
    rows: &Tensor,
    grad: &Tensor,
    lr: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    step: f64,
) -> Result<()> {
    let copy = |tensor: &Tensor| {
        let format = Some(MemoryFormat::Contiguous);
        ops::to_dtype_layout(tensor, None, None, Some(Device::CPU), None, false, true, format)
    };
    let written = [self_, exp_avg, exp_avg_sq];
    let copies = [copy(self_)?, copy(exp_avg)?, copy(exp_avg_sq)?];
    let [params, means, squares] = &copies;
    let (rows, grad) = (copy(rows)?, copy(grad)?);
    ops::_sparse_adam_(params, means, squares, &rows, &grad, lr, beta1, beta2, eps, weight_decay, step)?;
    written.iter().zip(&copies).try_for_each(|(tensor, copy)| ops::copy_(tensor, copy, false))
}

fn check_rows(name: &str, rows: &[i64], count: i64) -> Result<()> {
    check_bounds(name, "rows", rows, count)?;
    ensure!(
        rows.is_sorted_by(|a, b| a < b),
        InvalidArgument(name, "rows"),
        "expected distinct rows in ascending order"
    );
    Ok(())
}

/// Numbers that have a square root.
trait SquareRoot {
    fn square_root(self) -> Self;
}

impl SquareRoot for f32 {
    #[inline(always)]
    fn square_root(self) -> Self {
        self.sqrt()
    }
}

impl SquareRoot for f64 {
    #[inline(always)]
    fn square_root(self) -> Self {
        self.sqrt()
    }
}

/// 1 less the shares of means that are kept, the summand of divisors, weight decay, and the rate with the correction of means.
struct Step<T> {
    factors: [T; 5],
    width: usize,
}

impl<T> Step<T>
where
    T: Pod + Send + Sync + FloatElement + SquareRoot,
    T: Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T>,
{
    fn all(&self, rows: &[i64], grad: &[T], [params, means, squares]: [&mut [T]; 3]) {
        if self.width == 0 || rows.is_empty() {
            return;
        }
        // A task has some of the named rows, and all rows of the tensors from its first one on.
        let tasks = ranges(rows.len(), WORK / 4 / self.width, |at| at);
        let row = |at: usize| if at == 0 { 0 } else { rows.get(at).map_or(0, |row| *row as usize) };
        let last = params.len() / self.width;
        let span = |range: &Range<usize>| {
            let end = if range.end == rows.len() { last } else { row(range.end) };
            (end - row(range.start)) * self.width
        };
        let [params, means, squares] = [params, means, squares].map(|all| parts(all, tasks.clone(), span));
        let all = params.into_iter().zip(means).zip(squares);
        for_each_task(crate::scratch::collect(all), |(((range, params), (_, means)), (_, squares))| {
            with_processor_vectors(
                #[inline(always)]
                || {
                    for (at, grad) in
                        range.clone().zip(grad[range.start * self.width..].chunks_exact(self.width))
                    {
                        if let Some(later) = rows.get(at + AHEAD) {
                            let later = (*later as usize - row(range.start)) * self.width;
                            for list in [&*params, &*means, &*squares] {
                                prefetch_elements(list, later, self.width);
                            }
                        }
                        let start = (rows[at] as usize - row(range.start)) * self.width;
                        let own = start..start + self.width;
                        self.row(
                            grad,
                            [&mut params[own.clone()], &mut means[own.clone()], &mut squares[own]],
                        );
                    }
                },
            );
        });
    }

    #[inline(always)]
    fn row(&self, grad: &[T], [params, means, squares]: [&mut [T]; 3]) {
        let [first, second, eps, decay, rate] = self.factors;
        for (((param, mean), square), grad) in params.iter_mut().zip(means).zip(squares).zip(grad) {
            let grad = *grad + decay * *param;
            *mean = *mean + first * (grad - *mean);
            *square = *square + second * (grad * grad - *square);
            *param = *param - rate * (*mean / (square.square_root() + eps));
        }
    }
}
