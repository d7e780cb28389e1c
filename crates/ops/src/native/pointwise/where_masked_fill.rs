//! Choices by a condition: `where`, `masked_fill`.

use crate::tensor_iterator::{Config, TensorIterator, result_type_of};
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
            Dtype,
            "{}: where expected condition to be a boolean tensor, but got a tensor with dtype {other}",
            iter.name()
        ),
    }
    iter.add_input(self_);
    iter.add_input(other);
    iter.build(Config::PROMOTE)
}

/// `self_` where the condition holds, `other` elsewhere.
pub fn where_self(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor, _: &Tensor) -> Result<()> {
    loops::select_kernel(iter)
}

/// A number that is chosen beside the elements of a tensor, and must be one of theirs where it is brought to their type.
fn number_beside(tensor: &Tensor, number: Scalar) -> Result<Tensor> {
    if result_type_of(tensor, number)? == tensor.dtype() {
        number.check_range(tensor.dtype()).map_err(|e| e.context("where"))?;
    }
    Tensor::wrapped_number(number)
}

/// A number where the condition holds, `other` elsewhere.
pub fn where_scalar_self(condition: &Tensor, self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::where_self(condition, &number_beside(other, self_)?, other)
}

/// `self_` where the condition holds, a number elsewhere.
pub fn where_scalar_other(condition: &Tensor, self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::where_self(condition, self_, &number_beside(self_, other)?)
}

/// One of two numbers.
pub fn where_scalar(condition: &Tensor, self_: Scalar, other: Scalar) -> Result<Tensor> {
    ops::where_self(condition, &Tensor::wrapped_number(self_)?, &Tensor::wrapped_number(other)?)
}

fn check_mask(name: &str, mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == ScalarType::Bool,
        Dtype,
        "{name}: masked_fill_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype()
    );
    Ok(())
}

/// The number as an element of the type of `self_`: it takes no part in promotion.
fn number_like(name: &str, self_: &Tensor, value: Scalar) -> Result<Tensor> {
    value.check_range(self_.dtype()).map_err(|e| e.context(name))?;
    ops::full(&[], value, Some(self_.dtype()), None, Some(self_.device()), None)
}

fn value_like(name: &str, self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        value.dim() == 0,
        Shape,
        "{name}: masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    if value.dtype() == self_.dtype() {
        return Ok(value.clone());
    }
    let converted = Tensor::empty_contiguous(&[], self_.dtype(), value.device())?;
    ops::copy_(&converted, value, false)?;
    Ok(converted)
}

/// Writes `value` where the mask holds.
fn fill_where(name: &'static str, self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    check_mask(name, mask)?;
    let mut iter = TensorIterator::in_place(name, self_);
    iter.add_input(mask);
    iter.add_input(value);
    iter.add_input(self_);
    iter.build(Config::PROMOTE)?;
    if iter.is_meta() { Ok(()) } else { loops::select_kernel(&iter) }
}

/// Writes a number where the mask holds.
pub fn masked_fill_scalar_(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<()> {
    fill_where("masked_fill_.Scalar", self_, mask, &number_like("masked_fill_.Scalar", self_, value)?)
}

/// Writes the only element of `value` where the mask holds.
pub fn masked_fill_tensor_(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    fill_where("masked_fill_.Tensor", self_, mask, &value_like("masked_fill_.Tensor", self_, value)?)
}

/// PyTorch fills a copy that is in plain order, whatever the order of `self`.
fn in_plain_order(filled: Tensor) -> Result<Tensor> {
    ops::contiguous(&filled, MemoryFormat::Contiguous)
}

/// A number where the mask holds, `self_` elsewhere.
pub fn masked_fill_scalar(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    check_mask("masked_fill.Scalar", mask)?;
    in_plain_order(ops::where_self(mask, &number_like("masked_fill.Scalar", self_, value)?, self_)?)
}

/// The only element of `value` where the mask holds, `self_` elsewhere.
pub fn masked_fill_tensor(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    check_mask("masked_fill.Tensor", mask)?;
    in_plain_order(ops::where_self(mask, &value_like("masked_fill.Tensor", self_, value)?, self_)?)
}

/// Where the condition holds: the indices along each dimension.
pub fn where_condition(condition: &Tensor) -> Result<Vec<Tensor>> {
    ops::nonzero_numpy(condition)
}
