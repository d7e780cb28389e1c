//! `where` and `masked_fill`.

use crate::tensor_iterator::{TensorIterator, result_type_of};
use crate::{Tensor, loops, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

/// Shape and type of [`where_self`].
pub fn where_self_meta<'a>(
    iter: &mut TensorIterator<'a>,
    condition: &'a Tensor,
    self_: &'a Tensor,
    other: &'a Tensor,
) -> Result<()> {
    match condition.dtype() {
        ScalarType::Bool => return iter.build_choice(condition, self_, other),
        ScalarType::U8 => iter.add_owned_input(ops::ne_scalar(condition, Scalar::Int(0))?),
        other => bail!(
            Dtype(iter.name(), "condition"),
            "where expected condition to be a boolean tensor, but got a tensor with dtype {other}"
        ),
    }
    iter.add_input(self_);
    iter.add_input(other);
    iter.build_choice_between(self_, other)
}

/// `self_` where the condition is true, else `other`.
pub fn where_self(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor, _: &Tensor) -> Result<()> {
    loops::select_kernel(iter)
}

/// The number as a tensor that takes part in type promotion with `tensor`. If it is converted to the type of `tensor`, it must be in
/// its range.
fn number_promoted_with(tensor: &Tensor, number: Scalar) -> Result<Tensor> {
    if result_type_of(tensor, number)? == tensor.dtype() {
        number.check_range(tensor.dtype()).map_err(|e| e.in_operator("where"))?;
    }
    Tensor::wrapped_number(number)
}

/// A number where the condition is true, else `other`.
pub fn where_scalar_self(condition: &Tensor, self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::where_self(condition, &number_promoted_with(other, self_)?, other)
}

/// `self_` where the condition is true, else a number.
pub fn where_scalar_other(condition: &Tensor, self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::where_self(condition, self_, &number_promoted_with(self_, other)?)
}

/// The number `self_` where the condition is true, else the number `other`.
pub fn where_scalar(condition: &Tensor, self_: Scalar, other: Scalar) -> Result<Tensor> {
    ops::where_self(condition, &Tensor::wrapped_number(self_)?, &Tensor::wrapped_number(other)?)
}

fn check_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == ScalarType::Bool,
        Dtype(name, "mask"),
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype()
    );
    Ok(())
}

/// The number as a tensor of the type of `self_`, which takes no part in type promotion.
fn number_like(name: &str, self_: &Tensor, value: Scalar) -> Result<Tensor> {
    value.check_range(self_.dtype()).map_err(|e| e.in_operator(name))?;
    ops::full(&[], value, Some(self_.dtype()), None, Some(self_.device()), None)
}

fn value_like(name: &str, self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        value.dim() == 0,
        Shape(name, "value"),
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    if value.dtype() == self_.dtype() {
        return Ok(value.clone());
    }
    // A number must be in the range of the type, so that no imaginary part is lost. The elements of other devices are not waited for
    // where they are real.
    let loses_a_part = value.dtype().is_complex() && !self_.dtype().is_complex();
    if value.device().is_cpu() || (loses_a_part && !value.device().is_meta()) {
        return number_like(name, self_, value.item_scalar()?);
    }
    let converted = Tensor::empty_contiguous(&[], self_.dtype(), value.device())?;
    ops::copy_(&converted, value, false)?;
    Ok(converted)
}

/// Writes `value` where the mask is true.
fn fill_where(name: &'static str, self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    check_mask(name, mask)?;
    let mut iter = TensorIterator::in_place(name, self_);
    iter.add_input(mask);
    iter.add_input(value);
    iter.add_input(self_);
    iter.build_choice_between(value, self_)?;
    if iter.is_meta() { Ok(()) } else { loops::select_kernel(&iter) }
}

/// Writes a number where the mask is true.
pub fn masked_fill_scalar_(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<()> {
    fill_where("masked_fill_.Scalar", self_, mask, &number_like("masked_fill_.Scalar", self_, value)?)
}

/// Writes the only element of `value` where the mask is true.
pub fn masked_fill_tensor_(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    fill_where("masked_fill_.Tensor", self_, mask, &value_like("masked_fill_.Tensor", self_, value)?)
}

/// The result has the contiguous memory format whatever that of `self` is, as in PyTorch.
fn make_contiguous(filled: Tensor) -> Result<Tensor> {
    ops::contiguous(&filled, MemoryFormat::Contiguous)
}

/// A number where the mask is true, else `self_`.
pub fn masked_fill_scalar(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    check_mask("masked_fill.Scalar", mask)?;
    make_contiguous(ops::where_self(mask, &number_like("masked_fill.Scalar", self_, value)?, self_)?)
}

/// The only element of `value` where the mask is true, else `self_`.
pub fn masked_fill_tensor(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    check_mask("masked_fill.Tensor", mask)?;
    make_contiguous(ops::where_self(mask, &value_like("masked_fill.Tensor", self_, value)?, self_)?)
}

/// The indices of the elements where the condition is true, a vector for each dimension.
pub fn where_condition(condition: &Tensor) -> Result<Vec<Tensor>> {
    ops::nonzero_numpy(condition)
}
