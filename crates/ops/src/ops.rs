//! Temporary.
use crate::dispatch::*;
use crate::tensor_iterator::TensorIterator;
use crate::{Tensor, native};
use flambeau_core::*;
pub type AddTensorFn = fn(DispatchKeySet, &Tensor, &Tensor, Scalar) -> Result<Tensor>;
pub static ADD_TENSOR: Operator<AddTensorFn> =
    Operator::new("add.Tensor", "", &[Kernel::new(DispatchKey::Cpu, add_tensor_cpu)], |_| Ok(vec![]));
pub fn add_tensor(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let (keys, kernel) = ADD_TENSOR.select(self_.key_set() | other.key_set())?;
    kernel(keys, self_, other, alpha)
}
fn add_tensor_cpu(_keys: DispatchKeySet, self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let mut iter = TensorIterator::functional("add.Tensor");
    native::binary::add_meta(&mut iter, self_, other, alpha)?;
    native::binary::add(&mut iter, self_, other, alpha)?;
    iter.into_output()
}
pub type MulTensorFn = fn(DispatchKeySet, &Tensor, &Tensor) -> Result<Tensor>;
pub static MUL_TENSOR: Operator<MulTensorFn> =
    Operator::new("mul.Tensor", "", &[Kernel::new(DispatchKey::Cpu, mul_tensor_cpu)], |_| Ok(vec![]));
pub fn mul_tensor(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (keys, kernel) = MUL_TENSOR.select(self_.key_set() | other.key_set())?;
    kernel(keys, self_, other)
}
fn mul_tensor_cpu(_keys: DispatchKeySet, self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let mut iter = TensorIterator::functional("mul.Tensor");
    native::binary::mul_meta(&mut iter, self_, other)?;
    native::binary::mul(&mut iter, self_, other)?;
    iter.into_output()
}
pub fn div_tensor(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let mut iter = TensorIterator::functional("div.Tensor");
    native::binary::div_meta(&mut iter, self_, other)?;
    native::binary::div(&mut iter, self_, other)?;
    iter.into_output()
}
pub fn sub_tensor(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let mut iter = TensorIterator::functional("sub.Tensor");
    native::binary::sub_meta(&mut iter, self_, other, alpha)?;
    native::binary::sub(&mut iter, self_, other, alpha)?;
    iter.into_output()
}
pub fn exp(self_: &Tensor) -> Result<Tensor> {
    let mut iter = TensorIterator::functional("exp");
    native::unary::exp_meta(&mut iter, self_)?;
    native::unary::exp(&mut iter, self_)?;
    iter.into_output()
}
pub fn copy_(a: &Tensor, b: &Tensor, n: bool) -> Result<()> {
    native::copy::copy_(a, b, n)
}
pub fn clone(a: &Tensor, m: Option<MemoryFormat>) -> Result<Tensor> {
    native::copy::clone(a, m)
}
pub fn fill__scalar(a: &Tensor, m: Scalar) -> Result<()> {
    native::copy::fill_(a, m)
}
pub fn zero_(a: &Tensor) -> Result<()> {
    native::copy::zero_(a)
}
pub fn view(a: &Tensor, m: &[i64]) -> Result<Tensor> {
    native::view::view(a, m)
}
pub fn transpose_int(a: &Tensor, b: i64, c: i64) -> Result<Tensor> {
    native::view::transpose(a, b, c)
}
pub fn empty_memory_format(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    native::factory::empty(size, dtype, layout, device, pin_memory, memory_format)
}
