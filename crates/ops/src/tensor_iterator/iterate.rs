//! Runs a kernel with a [`TensorIterator`]: with a new result, in place, or with `out`.

use super::TensorIterator;
use crate::Tensor;
use flambeau_core::Result;

/// The result of `steps` as a new tensor.
///
/// # Errors
/// Those of `steps`.
#[inline(always)]
pub fn functional<'a>(
    name: &'static str,
    steps: impl FnOnce(&mut TensorIterator<'a>) -> Result<()>,
) -> Result<Tensor> {
    let mut iter = TensorIterator::functional(name);
    steps(&mut iter)?;
    iter.take_result()
}

/// The results of `steps` as two new tensors.
///
/// # Errors
/// Those of `steps`.
pub fn functional_pair<'a>(
    name: &'static str,
    steps: impl FnOnce(&mut TensorIterator<'a>) -> Result<()>,
) -> Result<(Tensor, Tensor)> {
    let mut iter = TensorIterator::functional(name);
    iter.add_output(None);
    steps(&mut iter)?;
    Ok((iter.take_output(0)?, iter.take_output(1)?))
}

/// The result of `steps`, written into `self_`.
///
/// # Errors
/// Those of `steps`.
#[inline(always)]
pub fn in_place<'a>(
    name: &'static str,
    self_: &'a Tensor,
    steps: impl FnOnce(&mut TensorIterator<'a>) -> Result<()>,
) -> Result<()> {
    let mut iter = TensorIterator::in_place(name, self_);
    steps(&mut iter)?;
    iter.finish()
}

/// The result of `steps`, written into `out`, which is resized if need be.
///
/// # Errors
/// Those of `steps`, and `OutOfMemory` where `out` cannot grow.
#[inline(always)]
pub fn out<'a>(
    name: &'static str,
    out: &'a Tensor,
    steps: impl FnOnce(&mut TensorIterator<'a>) -> Result<()>,
) -> Result<()> {
    outs(name, [out], steps)
}

/// The results of `steps`, written into `outs`.
///
/// # Errors
/// As [`out`].
#[inline(always)]
pub fn outs<'a, const N: usize>(
    name: &'static str,
    outs: [&'a Tensor; N],
    steps: impl FnOnce(&mut TensorIterator<'a>) -> Result<()>,
) -> Result<()> {
    let mut iter = TensorIterator::out(name, outs[0]);
    outs[1..].iter().for_each(|out| iter.add_output(Some(out)));
    steps(&mut iter)?;
    iter.finish_out()
}
