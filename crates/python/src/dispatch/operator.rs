//! The class `_Operator`: an operator of the registry, which Python calls and registers kernels for.

use super::kernels::PythonKernel;
use super::schema::{OperatorSchema, schema_of};
use super::values;
use crate::arguments::LARGE;
use crate::call::{call, run};
use crate::errors::raise;
use crate::overrides;
use flambeau_autograd::defined::{note_formula, register_defaults};
use flambeau_core::{Result, ensure};
use flambeau_ops::dispatch::{DispatchKey, OperatorInfo, Value};
use flambeau_ops::registry;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Object<'py> = Bound<'py, PyAny>;

/// An operator, with its schema.
#[pyclass(frozen, name = "_Operator", module = "flambeau")]
pub(super) struct PyOperator {
    operator: &'static dyn OperatorInfo,
    schema: &'static OperatorSchema,
    /// The Python object of the overload, which classes and modes get.
    overload: PyOnceLock<Py<PyAny>>,
}

/// A kernel that Python registered: it can be put out of force, but not freed, since a thread may be in it.
#[pyclass(frozen, name = "_RegisteredKernel", module = "flambeau")]
struct Registered {
    operator: &'static dyn OperatorInfo,
    key: DispatchKey,
    in_force: Arc<AtomicBool>,
}

#[pymethods]
impl Registered {
    /// Puts the kernel out of force.
    fn withdraw(&self) {
        self.in_force.store(false, Ordering::Release);
        self.operator.select_again(self.key);
    }
}

/// An argument or a result for Python: name, type, default, whether it stands behind the `*`, letters of its alias sets, whether it is
/// written.
type Declaration<'py> = (Option<String>, String, Option<Object<'py>>, bool, Vec<String>, bool);

#[pymethods]
impl PyOperator {
    /// `add.Tensor`, `mine::cube`.
    #[getter]
    fn name(&self) -> &'static str {
        self.operator.name()
    }

    /// Namespace, name, and name of the overload.
    #[getter]
    fn parts(&self) -> (&str, &str, &str) {
        let name = &self.schema.schema.name;
        (name.namespace.as_deref().unwrap_or("aten"), &name.base, &name.overload)
    }

    /// The schema as text, with its namespace.
    #[getter]
    fn schema(&self) -> String {
        let prefix = if self.schema.schema.name.namespace.is_some() { "" } else { "aten::" };
        format!("{prefix}{}", self.schema.schema)
    }

    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Declaration<'py>>> {
        let declared = |parameter: &super::schema::Parameter| {
            let default =
                parameter.default.as_ref().map(|default| values::object_of(py, default)).transpose()?;
            let argument = &parameter.argument;
            let (letters, writes) = alias(argument.alias.as_ref());
            Ok((
                Some(argument.name.clone()),
                argument.ty.to_string(),
                default,
                parameter.keyword,
                letters,
                writes,
            ))
        };
        self.schema.parameters.iter().map(declared).collect()
    }

    #[getter]
    fn returns<'py>(&self, _py: Python<'py>) -> Vec<Declaration<'py>> {
        let declared = |result: &flambeau_schema::Return| {
            let (letters, writes) = alias(result.alias.as_ref());
            (result.name.clone(), result.ty.to_string(), None, false, letters, writes)
        };
        self.schema.schema.returns.iter().map(declared).collect()
    }

    /// Whether a kernel is registered for exactly this key.
    fn has_kernel(&self, key: &str) -> PyResult<bool> {
        Ok(self.operator.has_kernel(key_named(key)?))
    }

    /// Makes a function the kernel for a key.
    fn register(&self, key: &str, function: Py<PyAny>) -> PyResult<Registered> {
        let in_force = Arc::new(AtomicBool::new(true));
        let key = key_named(key)?;
        let is_recorded = key >= DispatchKey::Autograd && key != DispatchKey::CompositeExplicitAutograd;
        let kernel = PythonKernel { function, in_force: in_force.clone(), is_recorded };
        self.operator.register_boxed(key, Box::leak(Box::new(kernel))).map_err(raise)?;
        Ok(Registered { operator: self.operator, key, in_force })
    }

    /// Has backward passes through the operator be errors until it has a derivative.
    fn add_autograd(&self) -> PyResult<()> {
        register_defaults(self.operator).map_err(raise)
    }

    /// Has the tangents of the operator follow from its derivative.
    fn note_formula(&self) {
        note_formula(self.operator);
    }

    /// Arguments by name: what the schema makes of those that are given, with defaults.
    #[pyo3(signature = (args, kwargs = None))]
    fn bind<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let values = values::arguments(self.schema, args, kwargs)?;
        values::python_arguments(py, self.schema, &values, true)
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Object<'py>> {
        let (py, this) = (slf.py(), slf.get());
        if overrides::has_overrides_in(args, kwargs) {
            let overload = this.overload(py)?;
            let named = kwargs.cloned().unwrap_or_else(|| PyDict::new(py));
            let function = py.import("flambeau._overrides")?.getattr("call_override")?;
            return call(&function, (overload, args, named));
        }
        let arguments = values::arguments(this.schema, args, kwargs)?;
        let is_large = arguments.iter().flat_map(Value::tensors).any(|tensor| tensor.numel() >= LARGE);
        let results = run(py, is_large, || this.operator.call_boxed(&arguments))?;
        values::returned(py, this.schema, &arguments, &results)
    }
}

impl PyOperator {
    fn new(operator: &'static dyn OperatorInfo) -> Result<Self> {
        Ok(PyOperator { operator, schema: schema_of(operator)?, overload: PyOnceLock::new() })
    }

    fn overload<'py>(&self, py: Python<'py>) -> PyResult<Object<'py>> {
        let make = || PyResult::Ok(overload_of(py, self.operator)?.unbind());
        Ok(self.overload.get_or_try_init(py, make)?.bind(py).clone())
    }
}

/// The object `flambeau.ops.ns.name.overload` of an operator.
pub(super) fn overload_of<'py>(
    py: Python<'py>,
    operator: &'static dyn OperatorInfo,
) -> PyResult<Object<'py>> {
    static OVERLOADS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    static FIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let known = OVERLOADS.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    // An operator that was defined again is another one.
    let key = std::ptr::from_ref(operator).cast::<()>().addr();
    if let Some(found) = known.get_item(key)? {
        return Ok(found);
    }
    let find = FIND.get_or_try_init(py, || {
        PyResult::Ok(py.import("flambeau._ops")?.getattr("_overload_of")?.unbind())
    })?;
    let found = call(find.bind(py), (operator.name(),))?;
    known.set_item(key, &found)?;
    Ok(found)
}

fn alias(alias: Option<&flambeau_schema::Alias>) -> (Vec<String>, bool) {
    let letters = alias.iter().flat_map(|alias| &alias.before).map(|set| set.name.clone()).collect();
    (letters, alias.is_some_and(flambeau_schema::Alias::writes))
}

/// A dispatch key of PyTorch's.
pub(super) fn key_named(name: &str) -> PyResult<DispatchKey> {
    Ok(match name {
        "CPU" => DispatchKey::Cpu,
        "CUDA" => DispatchKey::Cuda,
        "Meta" => DispatchKey::Meta,
        "PrivateUse1" => DispatchKey::PrivateUse1,
        "PrivateUse2" => DispatchKey::PrivateUse2,
        "PrivateUse3" => DispatchKey::PrivateUse3,
        "BackendSelect" => DispatchKey::BackendSelect,
        "Python" => DispatchKey::Python,
        "ADInplaceOrView" => DispatchKey::ADInplaceOrView,
        "Autograd" | "AutogradCPU" | "AutogradCUDA" | "AutogradMeta" | "AutogradPrivateUse1" => {
            DispatchKey::Autograd
        }
        "ForwardGrad" => DispatchKey::ForwardGrad,
        "AutocastCPU" | "AutocastCUDA" | "Autocast" => DispatchKey::Autocast,
        "SparseCPU" | "SparseCUDA" | "Sparse" => DispatchKey::Sparse,
        "SparseCsrCPU" | "SparseCsrCUDA" | "SparseCompressed" => DispatchKey::SparseCompressed,
        "QuantizedCPU" | "QuantizedCUDA" | "Quantized" => DispatchKey::Quantized,
        "FuncTorchBatched" | "Batched" => DispatchKey::Batched,
        "CompositeImplicitAutograd" => DispatchKey::CompositeImplicitAutograd,
        "CompositeExplicitAutograd" => DispatchKey::CompositeExplicitAutograd,
        _ => {
            let message = format!("could not parse dispatch key: {name}");
            return Err(PyRuntimeError::new_err(message));
        }
    })
}

/// The operator of that name, if there is one.
#[pyfunction]
fn _find_operator(name: &str) -> PyResult<Option<PyOperator>> {
    let name = name.strip_prefix("aten::").unwrap_or(name);
    registry::find(name).ok().map(PyOperator::new).transpose().map_err(raise)
}

/// The names of all operators.
#[pyfunction]
fn _operator_names() -> Vec<&'static str> {
    registry::operators().map(|operator| operator.name()).collect()
}

/// Defines an operator, whose name has a namespace.
#[pyfunction]
fn _define_operator(schema: &str) -> PyResult<PyOperator> {
    let define = || {
        let parsed = OperatorSchema::parse(schema)?;
        ensure!(
            parsed.schema.name.namespace.is_some(),
            InvalidArgument("define", "schema"),
            "expected a name with a namespace, as in `mine::cube`, but got {schema:?}"
        );
        PyOperator::new(registry::define(&parsed.schema.to_string())?)
    };
    define().map_err(raise)
}

/// Frees the name of an operator that was defined.
#[pyfunction]
fn _undefine_operator(name: &str) -> PyResult<()> {
    registry::undefine(name).map_err(raise)
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyOperator>()?;
    module.add_class::<Registered>()?;
    module.add_function(wrap_pyfunction!(_find_operator, module)?)?;
    module.add_function(wrap_pyfunction!(_operator_names, module)?)?;
    module.add_function(wrap_pyfunction!(_define_operator, module)?)?;
    module.add_function(wrap_pyfunction!(_undefine_operator, module)?)
}
