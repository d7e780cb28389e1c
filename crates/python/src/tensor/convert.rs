//! Converts tensors to Python's numbers and lists, to other types and devices, and to text.

use super::{PyTensor, tensor_in, wrap};
use crate::arguments::{LARGE, is_number};
use crate::call::{IntoPython, call, run};
use crate::dispatch;
use crate::errors::raise;
use crate::objects;
use flambeau_core::{Complex, Error, ErrorKind, MemoryFormat, Result, Scalar, ScalarType, fallible};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

type Object<'py> = Bound<'py, PyAny>;

#[pymethods]
impl PyTensor {
    /// The value of a tensor of one element, as a number of Python.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        self.single()?.into_python(py)
    }

    /// The elements as nested lists; a number where there are no dimensions.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        if self.tensor.dim() == 0 {
            return self.item(py);
        }
        let values = numbers(py, &self.tensor)?;
        nested(py, self.tensor.sizes(), &mut values.into_iter())
    }

    fn __bool__(&self) -> PyResult<bool> {
        match self.tensor.numel() {
            1 if is_batched(&self.tensor) => Err(PyRuntimeError::new_err(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that \
                 yet, please file an issue.",
            )),
            1 => Ok(self.single()?.to_bool()),
            0 => Err(PyRuntimeError::new_err("Boolean value of Tensor with no values is ambiguous")),
            _ => {
                Err(PyRuntimeError::new_err("Boolean value of Tensor with more than one value is ambiguous"))
            }
        }
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        match self.real_number("int64_t")? {
            Scalar::Float(value) => Ok(py.get_type::<pyo3::types::PyInt>().call1((value,))?),
            Scalar::UInt(value) => objects::unsigned_int(py, value),
            value => Ok(value.to_i64().into_pyobject(py)?.into_any()),
        }
    }

    fn __float__(&self) -> PyResult<f64> {
        self.real_number("float").map(Scalar::to_f64)
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let (re, im) = self.number()?.to_complex();
        objects::complex(py, re, im)
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        if !self.tensor.dtype().is_integral(true) || self.tensor.numel() != 1 {
            return Err(PyTypeError::new_err(
                "only integer tensors of a single element can be converted to an index",
            ));
        }
        match self.single()? {
            Scalar::UInt(value) => objects::unsigned_int(py, value),
            value => objects::int(py, value.to_i64()),
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.tensor.sizes().first();
        first.map(|size| *size as usize).ok_or_else(|| PyTypeError::new_err("len() of a 0-d tensor"))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        if self.tensor.dim() == 0 {
            return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
        }
        let items = ops::unbind_int(&self.tensor, 0).map_err(raise)?.into_python(py)?;
        call(&items.getattr("__iter__")?, ())
    }

    fn __contains__(slf: &Bound<'_, Self>, value: &Object<'_>) -> PyResult<bool> {
        if !is_number(value) && tensor_in(value).is_none() {
            return Err(PyRuntimeError::new_err(format!(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a {}.",
                value.get_type().repr()?
            )));
        }
        let equal = slf.as_any().rich_compare(value, pyo3::class::basic::CompareOp::Eq)?;
        call(&equal.getattr("any")?, ())?.is_truthy()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if dispatch::is_wrapper(&self.tensor) {
            return dispatch::text_of_wrapper(py, &self.tensor);
        }
        run(py, true, || Ok(self.tensor.to_string()))
    }

    fn __format__(slf: &Bound<'_, Self>, specification: &str) -> PyResult<String> {
        let this = slf.get();
        if this.tensor.dim() > 0 || this.tensor.device().is_meta() {
            return this.__repr__(slf.py());
        }
        let number = this.item(slf.py())?;
        number.call_method1("__format__", (specification,))?.extract()
    }

    fn cpu<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let cpu = Some(flambeau_core::Device::CPU);
        let there = ops::to_dtype_layout(&self.tensor, None, None, cpu, None, false, false, None);
        wrap(py, there.map_err(raise)?)
    }
}

macro_rules! conversions {
    ($($method:ident => $dtype:ident;)*) => {$(
        #[pymethods]
        impl PyTensor {
            #[pyo3(signature = (memory_format = None))]
            fn $method<'py>(
                &self,
                py: Python<'py>,
                memory_format: Option<&Bound<'py, crate::types::PyMemoryFormat>>,
            ) -> PyResult<Object<'py>> {
                convert(py, &self.tensor, ScalarType::$dtype, memory_format.map(|format| format.get().0))
            }
        }
    )*};
}

conversions! {
    float => F32;
    double => F64;
    cfloat => Complex64;
    cdouble => Complex128;
    chalf => Complex32;
    half => F16;
    bfloat16 => BF16;
    bool => Bool;
    byte => U8;
    char => I8;
    short => I16;
    int => I32;
    long => I64;
}

fn convert<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    dtype: ScalarType,
    format: Option<MemoryFormat>,
) -> PyResult<Object<'py>> {
    let unlocked = tensor.numel() >= LARGE;
    wrap(py, run(py, unlocked, || ops::to_dtype(tensor, dtype, false, false, format))?)
}

impl PyTensor {
    /// The number that `int()` and `float()` convert.
    fn number(&self) -> PyResult<Scalar> {
        if self.tensor.numel() != 1 {
            return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars"));
        }
        self.single()
    }

    /// [`number`](Self::number) without an imaginary part.
    fn real_number(&self, to: &str) -> PyResult<Scalar> {
        match self.number()? {
            Scalar::Complex(re, 0.0) => Ok(Scalar::Float(re)),
            Scalar::Complex(..) => {
                let message = format!("value cannot be converted to type {to} without overflow");
                Err(PyRuntimeError::new_err(message))
            }
            number => Ok(number),
        }
    }

    fn single(&self) -> PyResult<Scalar> {
        let count = self.tensor.numel();
        if count != 1 {
            return Err(PyRuntimeError::new_err(format!(
                "a Tensor with {count} elements cannot be converted to Scalar"
            )));
        }
        if dispatch::is_wrapper(&self.tensor) {
            return dispatch::item_of_wrapper(&self.tensor).map_err(raise);
        }
        if self.tensor.sparse_parts().is_some() {
            let dense = flambeau_sparse::to_dense(&self.tensor).map_err(raise)?;
            return dense.item_scalar().map_err(raise);
        }
        self.tensor.item_scalar().map_err(raise)
    }
}

/// Every element as a number of Python, in logical order.
fn numbers<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Vec<Object<'py>>> {
    let wide = |dtype| -> Result<Tensor> { ops::to_dtype(&ops::detach(tensor)?, dtype, false, false, None) };
    match tensor.dtype() {
        ScalarType::Bool => objects_of(values::<bool>(tensor)?, |value| value.into_python(py)),
        dtype if dtype.is_complex() => {
            let object = |z: Complex<f64>| objects::complex(py, z.re, z.im);
            objects_of(values(&wide(ScalarType::Complex128).map_err(raise)?)?, object)
        }
        dtype if dtype.is_floating_point() => {
            objects_of(values(&wide(ScalarType::F64).map_err(raise)?)?, |value| objects::float(py, value))
        }
        ScalarType::U64 => objects_of(values::<u64>(tensor)?, |value| objects::unsigned_int(py, value)),
        _ => objects_of(values(&wide(ScalarType::I64).map_err(raise)?)?, |value| objects::int(py, value)),
    }
}

fn objects_of<'py, T>(
    values: Vec<T>,
    object: impl Fn(T) -> PyResult<Object<'py>>,
) -> PyResult<Vec<Object<'py>>> {
    let mut made = fallible::with_capacity(values.len()).map_err(raise)?;
    for value in values {
        made.push(object(value)?);
    }
    Ok(made)
}

fn values<T: flambeau_core::Element>(tensor: &Tensor) -> PyResult<Vec<T>> {
    tensor.to_vec().map_err(raise)
}

/// Lists of lists of these sizes.
fn nested<'py>(
    py: Python<'py>,
    sizes: &[i64],
    values: &mut std::vec::IntoIter<Object<'py>>,
) -> PyResult<Object<'py>> {
    match sizes {
        [] => values.next().ok_or_else(|| raise(Error::new(ErrorKind::Internal, "tolist: too few elements"))),
        [last, rest @ ..] => Ok(objects::list(py, *last as usize, |_| nested(py, rest, values))?.into_any()),
    }
}
