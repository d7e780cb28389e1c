//! Classes of dtypes, devices, layouts, memory formats and generators.

use crate::errors::raise;
use flambeau_core::{
    Device, Error, ErrorKind, Generator, GeneratorState, Layout, MemoryFormat, ScalarType, backend,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};
use std::fmt;

/// The type of a tensor's elements. There is one object for each, so that `x.dtype is flambeau.float32`.
#[pyclass(name = "dtype", module = "flambeau", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyDtype(pub(crate) ScalarType);

#[pymethods]
impl PyDtype {
    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_floating_point()
    }

    #[getter]
    fn is_complex(&self) -> bool {
        self.0.is_complex()
    }

    /// The type of the parts of a complex type; itself otherwise.
    fn to_real<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDtype>> {
        dtype_object(py, self.0.to_real())
    }

    /// The complex type that holds the values of this one.
    fn to_complex<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDtype>> {
        let complex = if self.0 == ScalarType::F16 { ScalarType::Complex32 } else { self.0.to_complex() };
        dtype_object(py, complex)
    }

    #[getter]
    fn is_signed(&self) -> bool {
        self.0.is_signed()
    }

    fn __repr__(&self) -> String {
        format!("flambeau.{}", self.0)
    }

    /// Pickled by name, so that it comes back as the one object there is.
    fn __reduce__(&self) -> &'static str {
        self.0.name()
    }
}

static DTYPES: PyOnceLock<Vec<Py<PyDtype>>> = PyOnceLock::new();

/// The object of a type of elements.
pub(crate) fn dtype_object(py: Python<'_>, dtype: ScalarType) -> PyResult<Bound<'_, PyDtype>> {
    let make = || ScalarType::WORKING.iter().map(|dtype| Py::new(py, PyDtype(*dtype))).collect();
    let all = DTYPES.get_or_try_init(py, make)?;
    let known = all.iter().find(|object| object.get().0 == dtype);
    known.map_or_else(|| Bound::new(py, PyDtype(dtype)), |object| Ok(object.bind(py).clone()))
}

/// Other names of types of elements.
const ALIASES: &[(&str, ScalarType)] = &[
    ("half", ScalarType::F16),
    ("float", ScalarType::F32),
    ("double", ScalarType::F64),
    ("cfloat", ScalarType::Complex64),
    ("cdouble", ScalarType::Complex128),
    ("chalf", ScalarType::Complex32),
    ("short", ScalarType::I16),
    ("int", ScalarType::I32),
    ("long", ScalarType::I64),
];

/// The type of elements of a name: `float32`, `half`.
pub(crate) fn dtype_named(name: &str) -> Option<ScalarType> {
    let working = ScalarType::WORKING.into_iter().find(|dtype| dtype.name() == name);
    working.or_else(|| ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, dtype)| *dtype))
}

/// Whether it is Python's `float`, `complex`, `int` or `bool`, which are accepted as element types.
pub(crate) fn is_python_number_type(value: &Bound<'_, PyAny>) -> bool {
    let py = value.py();
    value.is_instance_of::<PyType>()
        && (value.is(py.get_type::<PyFloat>())
            || value.is(py.get_type::<PyComplex>())
            || value.is(py.get_type::<PyInt>())
            || value.is(py.get_type::<PyBool>()))
}

/// The kinds of devices that PyTorch names and for which there is no crate. Programs compare devices with them.
const ABSENT: &[&str] = &["hpu", "ipu", "lazy", "maia", "mps", "mtia", "vulkan", "xla", "xpu"];

/// A device, or the name of one that is not here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum AnyDevice {
    Here(Device),
    Absent(&'static str, Option<u8>),
}

impl AnyDevice {
    fn of(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(device) = value.cast::<PyDevice>() {
            return Ok(device.get().0);
        }
        let text = value.cast::<PyString>()?.to_str()?;
        text.parse().map(AnyDevice::Here).or_else(|error| AnyDevice::absent(text).ok_or_else(|| raise(error)))
    }

    /// A name of [`ABSENT`], with or without a number.
    fn absent(text: &str) -> Option<Self> {
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index.parse().ok().filter(|index| *index < 128)?)),
            None => (text, None),
        };
        ABSENT.iter().find(|known| **known == name).map(|&known| AnyDevice::Absent(known, index))
    }

    fn kind(self) -> &'static str {
        match self {
            AnyDevice::Here(device) => device.device_type().name(),
            AnyDevice::Absent(name, _) => name,
        }
    }

    fn index(self) -> Option<usize> {
        match self {
            AnyDevice::Here(device) => device.index(),
            AnyDevice::Absent(_, index) => index.map(usize::from),
        }
    }

    fn with_index(self, index: u8) -> Self {
        match self {
            AnyDevice::Here(device) => AnyDevice::Here(Device::new(device.device_type(), Some(index))),
            AnyDevice::Absent(name, _) => AnyDevice::Absent(name, Some(index)),
        }
    }
}

impl fmt::Display for AnyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        self.index().map_or(Ok(()), |index| write!(f, ":{index}"))
    }
}

/// Where a tensor's elements live: `device("cpu")`, `device("cuda", 1)`.
#[pyclass(name = "device", module = "flambeau", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyDevice(AnyDevice);

impl PyDevice {
    pub(crate) fn of(device: Device) -> Self {
        PyDevice(AnyDevice::Here(device))
    }

    /// The device, if it is here.
    pub(crate) fn device(&self) -> PyResult<Device> {
        match self.0 {
            AnyDevice::Here(device) => Ok(device),
            AnyDevice::Absent(..) => {
                let message = format!("expected a device that is here but got '{}'", self.0);
                Err(raise(Error::new(ErrorKind::Device, message)))
            }
        }
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (device = None, index = None, *, r#type = None))]
    fn new(
        device: Option<&Bound<'_, PyAny>>,
        index: Option<u8>,
        r#type: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let named = match (device, r#type) {
            (Some(device), None) | (None, Some(device)) => AnyDevice::of(device)?,
            (Some(_), Some(_)) => {
                return Err(PyTypeError::new_err("device() takes a device or a type, not both"));
            }
            (None, None) => {
                return Err(PyTypeError::new_err("device() missing the argument `device` or `type`"));
            }
        };
        match index {
            None => Ok(PyDevice(named)),
            Some(_) if named.index().is_some() => {
                Err(PyTypeError::new_err(format!("'{named}' names an index already")))
            }
            Some(index) => Ok(PyDevice(named.with_index(index))),
        }
    }

    #[getter(r#type)]
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    #[getter]
    fn index(&self) -> Option<usize> {
        self.0.index()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        match self.0.index() {
            Some(index) => format!("device(type='{}', index={index})", self.kind()),
            None => format!("device(type='{}')", self.kind()),
        }
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyType>, (String,)) {
        (slf.get_type().unbind(), (slf.get().0.to_string(),))
    }
}

/// How a tensor stores its elements.
#[pyclass(name = "layout", module = "flambeau", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyLayout(pub(crate) Layout);

/// Every layout that a tensor may have.
const LAYOUTS: [Layout; 6] = [
    Layout::Strided,
    Layout::SparseCoo,
    Layout::SparseCsr,
    Layout::SparseCsc,
    Layout::SparseBsr,
    Layout::SparseBsc,
];

#[pymethods]
impl PyLayout {
    fn __repr__(&self) -> String {
        format!("flambeau.{}", self.__reduce__())
    }

    /// The name in the module; a layout of another crate has none there, so that it cannot be pickled.
    fn __reduce__(&self) -> String {
        self.0.to_string().trim_start_matches("torch.").to_owned()
    }
}

/// Which order of dimensions a dense result should have.
#[pyclass(name = "memory_format", module = "flambeau", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyMemoryFormat(pub(crate) MemoryFormat);

#[pymethods]
impl PyMemoryFormat {
    fn __repr__(&self) -> String {
        format!("flambeau.{}", self.__reduce__())
    }

    fn __reduce__(&self) -> &'static str {
        match self.0 {
            MemoryFormat::Contiguous => "contiguous_format",
            MemoryFormat::Preserve => "preserve_format",
            MemoryFormat::ChannelsLast => "channels_last",
            MemoryFormat::ChannelsLast3d => "channels_last_3d",
        }
    }
}

/// A source of random numbers.
#[pyclass(name = "Generator", module = "flambeau", frozen)]
pub(crate) struct PyGenerator(pub(crate) Generator);

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device = None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let device = device.map(crate::arguments::device_of).transpose()?.unwrap_or(Device::CPU);
        let is_there = device.is_cpu() || backend::hooks(device.device_type()).map_err(raise)?.is_some();
        if !is_there {
            return Err(PyTypeError::new_err(format!("a generator on '{device}' is not implemented yet")));
        }
        let device = backend::resolve(device).map_err(raise)?;
        Ok(PyGenerator(Generator::on(device, Generator::default_cpu().state().seed)))
    }

    /// Starts the stream of `seed` from its beginning.
    fn manual_seed(slf: Bound<'_, Self>, seed: i64) -> Bound<'_, Self> {
        slf.get().0.manual_seed(seed as u64);
        slf
    }

    fn initial_seed(&self) -> u64 {
        self.0.state().seed
    }

    /// Seed and position: what to keep, to go on from here later.
    fn _position(&self) -> (u64, u64) {
        let state = self.0.state();
        (state.seed, state.offset)
    }

    fn _go_to(&self, seed: u64, offset: u64) {
        self.0.set_state(GeneratorState { seed, offset });
    }

    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.0.device())
    }
}

/// Puts the classes and the objects there are of them into the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<PyDtype>()?;
    module.add_class::<PyDevice>()?;
    module.add_class::<PyLayout>()?;
    module.add_class::<PyMemoryFormat>()?;
    module.add_class::<PyGenerator>()?;
    for dtype in ScalarType::WORKING {
        module.add(dtype.name(), dtype_object(py, dtype)?)?;
    }
    for (alias, dtype) in ALIASES {
        module.add(*alias, dtype_object(py, *dtype)?)?;
    }
    for format in [
        MemoryFormat::Contiguous,
        MemoryFormat::Preserve,
        MemoryFormat::ChannelsLast,
        MemoryFormat::ChannelsLast3d,
    ] {
        let object = PyMemoryFormat(format);
        module.add(object.__reduce__(), object)?;
    }
    for layout in LAYOUTS {
        let object = PyLayout(layout);
        module.add(object.__reduce__(), object)?;
    }
    module.add("default_generator", PyGenerator(Generator::default_cpu().clone()))
}
