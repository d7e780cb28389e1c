//! Python's operators on tensors: `+`, `<`, `@` and others.

use super::{PyTensor, tensor_in};
use crate::arguments::{LARGE, is_number, scalar_of};
use crate::call::{IntoPython, run};
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};
use pyo3::class::basic::CompareOp;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError};
use pyo3::prelude::*;

const ONE: Scalar = Scalar::Int(1);

type Object<'py> = Bound<'py, PyAny>;

#[inline]
fn result<'py>(
    py: Python<'py>,
    size: i64,
    operator: impl FnOnce() -> Result<Tensor> + Send,
) -> PyResult<Object<'py>> {
    run(py, size >= LARGE, operator)?.into_python(py)
}

/// An operator on two tensors, or a tensor and a number; for other operands `NotImplemented`, so that Python calls their method.
#[inline]
fn binary<'py>(
    this: &Bound<'py, PyTensor>,
    other: &Object<'py>,
    tensors: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor> + Send,
    number: impl FnOnce(&Tensor, Scalar) -> Result<Tensor> + Send,
) -> PyResult<Object<'py>> {
    let (py, a) = (this.py(), this.get().tensor());
    if let Some(b) = tensor_in(other) {
        if crate::overrides::defers(other) {
            return Ok(py.NotImplemented().into_bound(py));
        }
        return result(py, a.numel().max(b.numel()), || tensors(a, b));
    }
    if is_number(other) {
        let value = scalar_of(other)?;
        return result(py, a.numel(), || number(a, value));
    }
    Ok(py.NotImplemented().into_bound(py))
}

/// The same with a number on the left, for `__radd__` and the like.
#[inline]
fn reflected<'py>(
    this: &Bound<'py, PyTensor>,
    other: &Object<'py>,
    number: impl FnOnce(&Tensor, Scalar) -> Result<Tensor> + Send,
) -> PyResult<Object<'py>> {
    let (py, a) = (this.py(), this.get().tensor());
    if is_number(other) {
        let value = scalar_of(other)?;
        return result(py, a.numel(), || number(a, value));
    }
    Ok(py.NotImplemented().into_bound(py))
}

/// An operator that writes the tensor on its left.
fn in_place(
    this: &Bound<'_, PyTensor>,
    other: &Object<'_>,
    tensors: impl FnOnce(&Tensor, &Tensor) -> Result<()> + Send,
    number: impl FnOnce(&Tensor, Scalar) -> Result<()> + Send,
) -> PyResult<()> {
    this.get().write(other, || {
        let (py, a) = (this.py(), this.get().peek());
        let large = a.numel() >= LARGE;
        match tensor_in(other) {
            Some(b) => run(py, large, || tensors(a, b)),
            None => {
                let value = number_of(other)?;
                run(py, large, || number(a, value))
            }
        }
    })
}

fn number_of(value: &Object<'_>) -> PyResult<Scalar> {
    if is_number(value) {
        return scalar_of(value);
    }
    let class = value.get_type().name()?.to_string();
    Err(PyTypeError::new_err(format!("expected a Tensor or a number but got {class}")))
}

#[pymethods]
impl PyTensor {
    fn __add__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, |a, b| ops::add_tensor(a, b, ONE), |a, x| ops::add_scalar(a, x, ONE))
    }

    fn __radd__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, |a, x| ops::add_scalar(a, x, ONE))
    }

    fn __iadd__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, |a, b| ops::add__tensor(a, b, ONE), |a, x| ops::add__scalar(a, x, ONE))
    }

    fn __sub__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, |a, b| ops::sub_tensor(a, b, ONE), |a, x| ops::sub_scalar(a, x, ONE))
    }

    fn __rsub__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, |a, x| ops::rsub_scalar(a, x, ONE))
    }

    fn __isub__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, |a, b| ops::sub__tensor(a, b, ONE), |a, x| ops::sub__scalar(a, x, ONE))
    }

    fn __mul__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::mul_tensor, ops::mul_scalar)
    }

    fn __rmul__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, ops::mul_scalar)
    }

    fn __imul__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::mul__tensor, ops::mul__scalar)
    }

    fn __truediv__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::div_tensor, ops::div_scalar)
    }

    fn __rtruediv__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, |a, x| ops::div_tensor(&Tensor::wrapped_number(x)?, a))
    }

    fn __itruediv__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::div__tensor, ops::div__scalar)
    }

    fn __floordiv__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::floor_divide, ops::floor_divide_scalar)
    }

    fn __rfloordiv__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, |a, x| ops::floor_divide(&Tensor::wrapped_number(x)?, a))
    }

    fn __ifloordiv__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::floor_divide__tensor, ops::floor_divide__scalar)
    }

    fn __mod__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::remainder_tensor, ops::remainder_scalar)
    }

    fn __rmod__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, |a, x| ops::remainder_scalar_tensor(x, a))
    }

    fn __imod__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::remainder__tensor, ops::remainder__scalar)
    }

    fn __and__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::bitwise_and_tensor, ops::bitwise_and_scalar)
    }

    fn __rand__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, ops::bitwise_and_scalar)
    }

    fn __iand__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::bitwise_and__tensor, ops::bitwise_and__scalar)
    }

    fn __or__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::bitwise_or_tensor, ops::bitwise_or_scalar)
    }

    fn __ror__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, ops::bitwise_or_scalar)
    }

    fn __ior__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::bitwise_or__tensor, ops::bitwise_or__scalar)
    }

    fn __xor__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        binary(slf, other, ops::bitwise_xor_tensor, ops::bitwise_xor_scalar)
    }

    fn __rxor__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        reflected(slf, other, ops::bitwise_xor_scalar)
    }

    fn __ixor__(slf: &Bound<'_, Self>, other: &Object<'_>) -> PyResult<()> {
        in_place(slf, other, ops::bitwise_xor__tensor, ops::bitwise_xor__scalar)
    }
}

#[pymethods]
impl PyTensor {
    fn __pow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Object<'py>,
        modulo: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        if !modulo.is_none() {
            return Ok(slf.py().NotImplemented().into_bound(slf.py()));
        }
        binary(slf, other, ops::pow_tensor_tensor, ops::pow_tensor_scalar)
    }

    fn __rpow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Object<'py>,
        modulo: &Object<'py>,
    ) -> PyResult<Object<'py>> {
        if !modulo.is_none() {
            return Ok(slf.py().NotImplemented().into_bound(slf.py()));
        }
        reflected(slf, other, |a, x| ops::pow_scalar(x, a))
    }

    fn __ipow__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>, _modulo: &Object<'py>) -> PyResult<()> {
        in_place(slf, other, ops::pow__tensor, ops::pow__scalar)
    }

    fn __matmul__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>) -> PyResult<Object<'py>> {
        let (py, a) = (slf.py(), slf.get().tensor());
        match tensor_in(other) {
            Some(_) if crate::overrides::defers(other) => Ok(py.NotImplemented().into_bound(py)),
            Some(b) => result(py, a.numel().max(b.numel()), || ops::matmul(a, b)),
            None => Ok(py.NotImplemented().into_bound(py)),
        }
    }

    fn __richcmp__<'py>(slf: &Bound<'py, Self>, other: &Object<'py>, op: CompareOp) -> PyResult<Object<'py>> {
        let other = &match tensor_in(other) {
            Some(_) => other.clone(),
            None => crate::numpy::as_operand(other)?,
        };
        match op {
            CompareOp::Eq => binary(slf, other, ops::eq_tensor, ops::eq_scalar),
            CompareOp::Ne => binary(slf, other, ops::ne_tensor, ops::ne_scalar),
            CompareOp::Lt => binary(slf, other, ops::lt_tensor, ops::lt_scalar),
            CompareOp::Le => binary(slf, other, ops::le_tensor, ops::le_scalar),
            CompareOp::Gt => binary(slf, other, ops::gt_tensor, ops::gt_scalar),
            CompareOp::Ge => binary(slf, other, ops::ge_tensor, ops::ge_scalar),
        }
    }

    /// By identity, since elements change.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        // As `object` does: the low bits of an address are zeros.
        (slf.as_ptr().addr() >> 4) as isize
    }

    fn __neg__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        result(py, self.tensor.numel(), || ops::neg(&self.tensor))
    }

    fn __pos__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().tensor().dtype() == ScalarType::Bool {
            return Err(PyNotImplementedError::new_err(
                "The `+` operator, on a bool tensor is not supported.",
            ));
        }
        Ok(slf)
    }

    fn __abs__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        result(py, self.tensor.numel(), || ops::abs(&self.tensor))
    }

    fn __invert__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        if !self.tensor.dtype().is_integral(true) {
            let message = "~ (operator.invert) is only implemented on integer and Boolean-type tensors";
            return Err(PyTypeError::new_err(message));
        }
        result(py, self.tensor.numel(), || ops::bitwise_not(&self.tensor))
    }
}
