//! NumPy's arrays as tensors and tensors as arrays, without a copy.
//!
//! Both directions use `__array_struct__`, a capsule with one C struct: nothing of NumPy is needed to build this, and there is no
//! text to parse as the buffer protocol and `__array_interface__` have. An array keeps the tensor's storage, and a storage
//! the array; a read-only one stays read-only on the other side. What is promised where both write at once is written down
//! at [`Foreign`].

#![expect(unsafe_code, reason = "reads and makes the C struct by which NumPy exchanges arrays")]

use crate::call::call;
use crate::errors::raise;
use crate::foreign::{
    Foreign, ensure_strided, pinned_data_ptr, release_object, snapshot_geometry, view_of_storage,
};
use crate::tensor::{PyTensor, wrap};
use flambeau_autograd::Autograd;
use flambeau_core::{Device, DimVec, ScalarType};
use flambeau_ops::{Tensor, ops};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use std::ffi::{c_char, c_int, c_void};
use std::{ptr, slice};

type Object<'py> = Bound<'py, PyAny>;

/// `PyArrayInterface` of `numpy/ndarraytypes.h`, "The array interface protocol", version 3.
#[repr(C)]
struct ArrayInterface {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *mut isize,
    /// In bytes.
    strides: *mut isize,
    data: *mut c_void,
    descr: *mut ffi::PyObject,
}

const ALIGNED: c_int = 0x100;
const NOT_SWAPPED: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

const TYPES: [(ScalarType, u8); 14] = [
    (ScalarType::F64, b'f'),
    (ScalarType::F32, b'f'),
    (ScalarType::F16, b'f'),
    (ScalarType::Complex64, b'c'),
    (ScalarType::Complex128, b'c'),
    (ScalarType::I64, b'i'),
    (ScalarType::I32, b'i'),
    (ScalarType::I16, b'i'),
    (ScalarType::I8, b'i'),
    (ScalarType::U8, b'u'),
    (ScalarType::U16, b'u'),
    (ScalarType::U32, b'u'),
    (ScalarType::U64, b'u'),
    (ScalarType::Bool, b'b'),
];

/// The class of arrays and two of its attributes, taken from the class itself: a subclass may override them, and objects of other
/// classes may imitate them.
struct ArrayClass {
    class: Py<PyType>,
    interface: Py<PyAny>,
    base: Py<PyAny>,
}

impl ArrayClass {
    /// The class, if the program has imported NumPy; if not, no object is an array.
    fn find(py: Python<'_>) -> Option<&ArrayClass> {
        static CLASS: PyOnceLock<ArrayClass> = PyOnceLock::new();
        if let Some(class) = CLASS.get(py) {
            return Some(class);
        }
        let numpy = py.import("sys").ok()?.getattr("modules").ok()?.get_item("numpy").ok()?;
        let class = numpy.getattr("ndarray").ok()?.cast_into::<PyType>().ok()?;
        let found = ArrayClass {
            interface: written_in_c(&class, "__array_struct__")?,
            base: written_in_c(&class, "base")?,
            class: class.unbind(),
        };
        Some(CLASS.get_or_init(py, || found))
    }

    /// The attribute of an array, which always exists.
    fn of<'py>(array: &Object<'py>) -> PyResult<&'py ArrayClass> {
        Self::find(array.py()).ok_or_else(|| PyTypeError::new_err("expected an array of NumPy's"))
    }
}

/// An attribute of a class, unless it is Python code.
fn written_in_c(class: &Bound<'_, PyType>, name: &str) -> Option<Py<PyAny>> {
    let attribute = class.getattr(name).ok()?;
    // SAFETY: the object lives; the type is compared by its address alone.
    let is_in_c = unsafe { ptr::eq(ffi::Py_TYPE(attribute.as_ptr()), &raw const ffi::PyGetSetDescr_Type) };
    is_in_c.then(|| attribute.unbind())
}

/// The value of a class attribute (a descriptor) for an object; an error if the object is of another class.
fn read<'py>(attribute: &Py<PyAny>, object: &Object<'py>) -> PyResult<Object<'py>> {
    attribute.bind(object.py()).call_method1("__get__", (object, object.get_type()))
}

/// Whether it is a number, list or tuple of Python's own classes, which is no library's array.
pub(crate) fn is_builtin(value: &Object<'_>) -> bool {
    value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyTuple>()
}

pub(crate) fn is_array(value: &Object<'_>) -> bool {
    let of_class = |class: &ArrayClass| value.get_type().is_subclass(class.class.bind(value.py()));
    !is_builtin(value) && ArrayClass::find(value.py()).is_some_and(|class| of_class(class).unwrap_or(false))
}

/// A tensor that shares the array's elements; `None` for what is no array.
pub(crate) fn shared(value: &Object<'_>) -> PyResult<Option<Tensor>> {
    if is_array(value) { import(value).map(Some) } else { Ok(None) }
}

/// The same for elements that are copied next, so that their alignment does not matter.
pub(crate) fn to_be_copied(value: &Object<'_>) -> PyResult<Option<Tensor>> {
    if !is_array(value) {
        return Ok(None);
    }
    let capsule = capsule_of(value)?;
    if described(&capsule)?.flags & ALIGNED != 0 {
        return import(value).map(Some);
    }
    let copy = ArrayClass::of(value)?.class.bind(value.py()).getattr("copy")?;
    import(&call(&copy, (value,))?).map(Some)
}

/// A tensor that shares the elements of a NumPy array, which it keeps. Of a read-only array it is read-only.
#[pyfunction]
fn from_numpy<'py>(array: &Object<'py>) -> PyResult<Object<'py>> {
    let shared = shared(array)?.ok_or_else(|| {
        PyTypeError::new_err(format!("expected np.ndarray (got {})", crate::arguments::type_name(array)))
    })?;
    wrap(array.py(), shared)
}

fn import(array: &Object<'_>) -> PyResult<Tensor> {
    let capsule = capsule_of(array)?;
    let interface = described(&capsule)?;
    // SAFETY: the struct says how many there are.
    let (shape, strides) =
        unsafe { (extents(interface.shape, interface.nd)?, extents(interface.strides, interface.nd)?) };
    let dtype = dtype_of_kind(array, interface)?;
    let sizes: DimVec = shape.iter().map(|size| *size as i64).collect();
    let foreign = Foreign {
        data: interface.data.cast(),
        sizes: &sizes,
        strides: &in_elements(strides, dtype)?,
        dtype,
        read_only: interface.flags & WRITEABLE == 0,
    };
    let geometry = foreign.geometry()?;
    if let Some(tensor) = own(array, &foreign)? {
        return Ok(tensor);
    }
    // The array owns its memory, and the capsule owns the array that it was made of.
    let owners = PyTuple::new(array.py(), [array, &capsule])?.into_any();
    // SAFETY: (valid) an array's elements lie inside its memory, which both retain; (shared) is the caller's responsibility.
    unsafe { foreign.into_tensor(geometry, release_object(owners.unbind())) }
}

/// The capsule by which NumPy itself describes an array.
fn capsule_of<'py>(array: &Object<'py>) -> PyResult<Object<'py>> {
    read(&ArrayClass::of(array)?.interface, array)
}

/// The struct in a capsule, which has it for as long as it lives.
fn described<'a>(capsule: &'a Object<'_>) -> PyResult<&'a ArrayInterface> {
    // SAFETY: `PyCapsule_GetPointer` takes any object. A capsule without a name from an attribute of this name, written in C, has such a struct.
    let interface: Option<&ArrayInterface> = unsafe {
        ffi::PyCapsule_GetPointer(capsule.as_ptr(), ptr::null())
            .cast_const()
            .cast::<ArrayInterface>()
            .as_ref()
    };
    let interface = interface.ok_or_else(|| PyErr::fetch(capsule.py()))?;
    if interface.two != 2 {
        return Err(PyValueError::new_err(format!(
            "expected an array's description, which begins with 2, but got one that begins with {}",
            interface.two
        )));
    }
    Ok(interface)
}

/// A view of the same storage, if the array shares a tensor's elements and both are read-only or both writable.
fn own(array: &Object<'_>, foreign: &Foreign<'_>) -> PyResult<Option<Tensor>> {
    let owner = owner(array)?;
    let Ok(elements) = owner.cast::<Elements>() else { return Ok(None) };
    let storage = elements.get().0.impl_().storage();
    Ok(if foreign.read_only == storage.is_read_only() { view_of_storage(foreign, storage) } else { None })
}

/// The owner of an array's memory: the `base` of a view is the array it was made of; that of an array made from a struct is the
/// object that exported the struct, since NumPy 2.4 in a tuple with the capsule.
fn owner<'py>(array: &Object<'py>) -> PyResult<Object<'py>> {
    let class = ArrayClass::of(array)?;
    let mut owner = read(&class.base, array)?;
    while is_array(&owner) {
        owner = read(&class.base, &owner)?;
    }
    match owner.cast::<PyTuple>() {
        Ok(pair) if !pair.is_empty() => pair.get_item(0),
        _ => Ok(owner),
    }
}

/// An array as the operand of a comparison: a tensor of its elements. NumPy computes the other arithmetic operators with a
/// tensor, but for comparisons Python calls the left operand first.
pub(crate) fn as_operand<'py>(value: &Object<'py>) -> PyResult<Object<'py>> {
    match shared(value)? {
        Some(tensor) => wrap(value.py(), tensor),
        None => Ok(value.clone()),
    }
}

/// # Safety
/// - `count` numbers at `first`, unless that is null or they are none.
unsafe fn extents<'a>(first: *const isize, count: c_int) -> PyResult<&'a [isize]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: as above.
        Ok(count) if !first.is_null() => Ok(unsafe { slice::from_raw_parts(first, count) }),
        _ => Err(PyValueError::new_err(format!("expected the sizes of {count} dimensions but got none"))),
    }
}

fn dtype_of_kind(array: &Object<'_>, interface: &ArrayInterface) -> PyResult<ScalarType> {
    let is = |(dtype, kind): &&(ScalarType, u8)| {
        *kind == interface.typekind as u8 && dtype.size() == interface.itemsize as usize
    };
    let Some((dtype, _)) = TYPES.iter().find(is) else { return Err(no_dtype(array)) };
    if interface.flags & NOT_SWAPPED == 0 {
        return Err(PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is \
             currently not supported.",
        ));
    }
    Ok(*dtype)
}

fn no_dtype(array: &Object<'_>) -> PyErr {
    let name = || array.getattr("dtype")?.getattr("type")?.getattr("__name__")?.extract::<String>();
    let names: Vec<&str> = TYPES.iter().map(|(dtype, _)| dtype.name()).collect();
    let (name, names) = (name().unwrap_or_default(), names.join(", "));
    PyTypeError::new_err(format!(
        "can't convert np.ndarray of type numpy.{name}. The only supported types are: {names}."
    ))
}

/// Strides in elements, which have to be whole and not negative.
fn in_elements(strides: &[isize], dtype: ScalarType) -> PyResult<DimVec> {
    let size = dtype.size() as isize;
    if strides.iter().any(|stride| stride % size != 0) {
        return Err(PyValueError::new_err(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
        ));
    }
    if strides.iter().any(|stride| *stride < 0) {
        return Err(PyValueError::new_err(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently \
             supported. (You can probably work around this by making a copy of your array with array.copy().)",
        ));
    }
    Ok(strides.iter().map(|stride| (stride / size) as i64).collect())
}

#[pymethods]
impl PyTensor {
    /// A NumPy array that shares the elements. With `force` a tensor on another device is copied, and one with a
    /// history is detached, where otherwise there is an error.
    #[pyo3(signature = (*, force = false))]
    fn numpy<'py>(&self, py: Python<'py>, force: bool) -> PyResult<Object<'py>> {
        let tensor = if force { plain(self.tensor())? } else { self.tensor().clone() };
        ensure_exportable(&tensor)?;
        static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let asarray =
            ASARRAY.get_or_try_init(py, || PyResult::Ok(py.import("numpy")?.getattr("asarray")?.unbind()))?;
        call(asarray.bind(py), (Bound::new(py, Elements(snapshot_geometry(&tensor)))?,))
    }
}

fn plain(tensor: &Tensor) -> PyResult<Tensor> {
    let detached = ops::detach(tensor).map_err(raise)?;
    ops::to_dtype_layout(&detached, None, None, Some(Device::CPU), None, false, false, None).map_err(raise)
}

fn ensure_exportable(tensor: &Tensor) -> PyResult<()> {
    ensure_strided(tensor)?;
    let device = tensor.device();
    if tensor.requires_grad() && flambeau_autograd::is_grad_enabled() {
        Err(PyRuntimeError::new_err(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ))
    } else if !device.is_cpu() {
        Err(PyTypeError::new_err(format!(
            "can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )))
    } else if !tensor.storage().is_host() {
        Err(PyTypeError::new_err(
            "can't convert a tensor without elements of its own to numpy: its class or its layout keeps them elsewhere",
        ))
    } else {
        kind_of(tensor.dtype()).map(drop)
    }
}

fn kind_of(dtype: ScalarType) -> PyResult<u8> {
    let found = TYPES.iter().find(|(known, _)| *known == dtype);
    found
        .map(|(_, kind)| *kind)
        .ok_or_else(|| PyTypeError::new_err(format!("Got unsupported ScalarType {dtype}")))
}

/// The object from which NumPy makes an array, and which it retains for as long as the array lives.
#[pyclass(module = "flambeau", frozen)]
struct Elements(Tensor);

#[pymethods]
impl Elements {
    #[getter(__array_struct__)]
    fn array_struct<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let interface = Box::into_raw(Box::new(Interface::new(&self.0)?));
        // SAFETY: the box begins with the struct that NumPy expects in a capsule without a name, and is freed with the capsule.
        unsafe {
            (*interface).c.shape = (*interface).shape.as_mut_ptr();
            (*interface).c.strides = (*interface).strides.as_mut_ptr();
            let capsule = ffi::PyCapsule_New(interface.cast(), ptr::null(), Some(drop_interface));
            if capsule.is_null() {
                drop(Box::from_raw(interface));
            }
            Bound::from_owned_ptr_or_err(py, capsule)
        }
    }
}

/// The struct for NumPy and what it points at.
#[repr(C)]
struct Interface {
    c: ArrayInterface,
    shape: SmallVec<[isize; 5]>,
    strides: SmallVec<[isize; 5]>,
}

impl Interface {
    /// With null for the addresses of sizes and strides, which are set once the struct is at its final address.
    fn new(tensor: &Tensor) -> PyResult<Self> {
        let itemsize = tensor.element_size();
        let writeable = if tensor.impl_().storage().is_read_only() { 0 } else { WRITEABLE };
        Ok(Interface {
            c: ArrayInterface {
                two: 2,
                nd: tensor.dim() as c_int,
                typekind: kind_of(tensor.dtype())? as c_char,
                itemsize: itemsize as c_int,
                flags: ALIGNED | NOT_SWAPPED | writeable,
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                data: pinned_data_ptr(tensor)?.cast(),
                descr: ptr::null_mut(),
            },
            shape: tensor.sizes().iter().map(|size| *size as isize).collect(),
            // The stride of a dimension with one element is arbitrary, and may overflow when it is converted to bytes.
            strides: tensor
                .strides()
                .iter()
                .map(|n| (*n as isize).saturating_mul(itemsize as isize))
                .collect(),
        })
    }
}

/// # Safety
/// - The interpreter calls it with a capsule of [`Elements::array_struct`].
unsafe extern "C" fn drop_interface(capsule: *mut ffi::PyObject) {
    // SAFETY: as above; this is the box that the capsule was made with.
    unsafe { drop(Box::from_raw(ffi::PyCapsule_GetPointer(capsule, ptr::null()).cast::<Interface>())) }
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_numpy, module)?)
}
