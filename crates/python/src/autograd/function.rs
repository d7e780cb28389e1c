//! `autograd.Function` in Python, based on the one in Rust: which arguments and outputs are tensors, and what the context object
//! contains.

use super::Object;
use crate::arguments::type_name;
use crate::call::{IntoPython, call};
use crate::cycles::Object as Held;
use crate::errors::{error_from_python, raise};
use crate::tensor::tensor_in;
use flambeau_autograd::forward::is_dual_level_open;
use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, JvpContext, apply};
use flambeau_core::Result;
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// For each argument, output or saved value whether it is a tensor.
type TensorMask = Vec<bool>;

/// A class of Python's and one call of it.
struct PyFunction {
    class: Held,
    context: Held,
    name: String,
    once: bool,
    arguments: TensorMask,
    outputs: Arc<OnceLock<Returned>>,
    saved: OnceLock<TensorMask>,
    /// The arguments, until forward has taken them.
    given: Mutex<Option<Py<PyTuple>>>,
}

/// What forward returned: one tensor or a tuple, whose items that are no tensors are returned unchanged.
struct Returned {
    single: bool,
    others: Vec<Option<Py<PyAny>>>,
}

impl Function for PyFunction {
    const NAME: &'static str = "a function written in Python";

    fn name(&self) -> &str {
        &self.name
    }

    fn is_once_differentiable(&self) -> bool {
        self.once
    }

    fn held(&self, visit: &mut dyn FnMut(&dyn Any)) {
        visit(&self.class);
        visit(&self.context);
        // Until the call that makes the node returns, it owns them too.
        if Arc::strong_count(&self.outputs) == 1
            && let Some(returned) = self.outputs.get()
        {
            returned.others.iter().flatten().for_each(|other| visit(other));
        }
    }

    fn forward(&self, cx: &mut ForwardContext<'_>, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Python::attach(|py| self.run_forward(py, cx)).map_err(error_from_python)
    }

    fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Python::attach(|py| self.run_backward(py, cx, grads)).map_err(error_from_python)
    }

    fn jvp(&self, _: &JvpContext<'_>, tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Python::attach(|py| self.run_jvp(py, tangents)).map_err(error_from_python)
    }
}

impl PyFunction {
    fn run_forward(&self, py: Python<'_>, cx: &mut ForwardContext<'_>) -> PyResult<Vec<Tensor>> {
        let (class, context) = (self.class.bind(py), self.context.bind(py));
        let Some(given) = self.given.lock().take() else {
            return Err(PyRuntimeError::new_err("forward was called twice"));
        };
        self.tell_needs(context, |i| cx.needs_input_grad(i))?;
        let returned = call(&class.getattr("_run_forward")?, (context, given.bind(py)))?;
        let outputs = self.note_outputs(&returned)?;
        self.note_saved(context, cx)?;
        let marked = |name: &str| tensors_of(&context.getattr(name)?, name);
        let (dirty, constant) = (marked("_dirty")?, marked("_non_differentiable")?);
        cx.mark_dirty(&dirty.iter().collect::<Vec<_>>());
        cx.mark_non_differentiable(&constant.iter().collect::<Vec<_>>());
        cx.set_materialize_grads(context.getattr("_materialize")?.is_truthy()?);
        // Outputs own the context through their history: if it owned them, this would be a reference cycle.
        context.setattr("_dirty", PyTuple::empty(py))?;
        context.setattr("_non_differentiable", PyTuple::empty(py))?;
        Ok(outputs)
    }

    /// The tensors among the outputs; the other items are stored.
    fn note_outputs(&self, returned: &Object<'_>) -> PyResult<Vec<Tensor>> {
        let items: Vec<Object<'_>> = match returned.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![returned.clone()],
        };
        let single = !returned.is_instance_of::<PyTuple>();
        let others = items.iter().map(|item| tensor_in(item).is_none().then(|| item.clone().unbind()));
        let outputs = items.iter().filter_map(|item| tensor_in(item).cloned()).collect();
        // Forward runs once.
        let _ = self.outputs.set(Returned { single, others: others.collect() });
        Ok(outputs)
    }

    fn note_saved(&self, context: &Object<'_>, cx: &mut ForwardContext<'_>) -> PyResult<()> {
        let saved = context.getattr("_to_save")?;
        let items: Vec<Object<'_>> = saved.cast::<PyTuple>()?.iter().collect();
        if let Some(other) = items.iter().find(|item| !item.is_none() && tensor_in(item).is_none()) {
            let message = format!(
                "save_for_backward can only save variables, but argument is of type {}",
                type_name(other)
            );
            return Err(PyTypeError::new_err(message));
        }
        let tensors: Vec<&Tensor> = items.iter().filter_map(tensor_in).collect();
        cx.save_for_backward(&tensors);
        let _ = self.saved.set(items.iter().map(|item| !item.is_none()).collect());
        if context.getattr("_for_forward")?.is_none() {
            let kept = if is_dual_level_open() { saved } else { PyTuple::empty(context.py()).into_any() };
            context.setattr("_for_forward", kept)?;
        }
        // The node has saved them, with their version counters.
        context.setattr("_to_save", PyTuple::empty(context.py()))
    }

    fn tell_needs(&self, context: &Object<'_>, needs: impl Fn(usize) -> bool) -> PyResult<()> {
        let mut number = 0..;
        let needs: Vec<bool> =
            self.arguments.iter().map(|is_tensor| *is_tensor && number.next().is_some_and(&needs)).collect();
        context.setattr("needs_input_grad", PyTuple::new(context.py(), needs)?)
    }

    fn run_backward(
        &self,
        py: Python<'_>,
        cx: &BackwardContext<'_>,
        grads: &[Option<Tensor>],
    ) -> PyResult<Vec<Option<Tensor>>> {
        let (class, context) = (self.class.bind(py), self.context.bind(py));
        self.tell_needs(context, |i| cx.needs_input_grad(i))?;
        self.set_saved(context, cx)?;
        let outputs = self.outputs.get().map_or(&[] as &[_], |returned| &returned.others);
        let mut grads = grads.iter();
        let grads = outputs.iter().map(|other| match other {
            Some(_) => Ok(py.None().into_bound(py)),
            None => grads.next().cloned().flatten().into_python(py),
        });
        let arguments: Vec<Object<'_>> =
            [Ok(context.clone())].into_iter().chain(grads).collect::<PyResult<_>>()?;
        let made = call(&class.getattr("backward")?, PyTuple::new(py, arguments)?);
        context.setattr("_saved", py.None())?;
        self.read_gradients(&made?)
    }

    /// The tangents of the tensors among the outputs, from those of the tensors among the arguments.
    fn run_jvp(&self, py: Python<'_>, tangents: &[Option<Tensor>]) -> PyResult<Vec<Option<Tensor>>> {
        let (class, context) = (self.class.bind(py), self.context.bind(py));
        context.setattr("_saved", context.getattr("_for_forward")?)?;
        let mut tangents = tangents.iter();
        let tangents = self.arguments.iter().map(|is_tensor| match is_tensor {
            true => tangents.next().cloned().flatten().into_python(py),
            false => Ok(py.None().into_bound(py)),
        });
        let arguments: Vec<Object<'_>> =
            [Ok(context.clone())].into_iter().chain(tangents).collect::<PyResult<_>>()?;
        let made = call(&class.getattr("jvp")?, PyTuple::new(py, arguments)?);
        context.setattr("_saved", py.None())?;
        context.setattr("_for_forward", PyTuple::empty(py))?;
        self.read_tangents(&made?)
    }

    /// One tangent for each tensor among the outputs; for other items the jvp returns `None`.
    fn read_tangents(&self, made: &Object<'_>) -> PyResult<Vec<Option<Tensor>>> {
        let items: Vec<Object<'_>> = match made.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![made.clone()],
        };
        let others = self.outputs.get().map_or(&[] as &[_], |returned| &returned.others);
        if items.len() != others.len() {
            let message = format!(
                "{}: the jvp returned {} tangents where the forward returned {} outputs",
                self.name,
                items.len(),
                others.len()
            );
            return Err(PyRuntimeError::new_err(message));
        }
        let of_tensors = items.iter().zip(others).filter(|(_, other)| other.is_none());
        let read = |(item, _): (&Object<'_>, _)| match tensor_in(item) {
            Some(tangent) => Ok(Some(tangent.clone())),
            None if item.is_none() => Ok(None),
            None => Err(PyTypeError::new_err(format!(
                "{}: expected tensors or None from the jvp but got {}",
                self.name,
                type_name(item)
            ))),
        };
        of_tensors.map(read).collect()
    }

    /// Sets the saved tensors on the context as a tuple, or the error that reading them raises.
    fn set_saved(&self, context: &Object<'_>, cx: &BackwardContext<'_>) -> PyResult<()> {
        let py = context.py();
        let Ok(tensors) = cx.saved_tensors().map_err(raise) else {
            let error = cx.saved_tensors().map(drop).map_err(raise).err();
            return context.setattr("_saved", error.map(|error| error.into_value(py)));
        };
        let mut tensors = tensors.into_iter();
        let is_tensor = self.saved.get().map_or(&[] as &[bool], Vec::as_slice);
        let objects =
            is_tensor.iter().map(|tensor| if *tensor { tensors.next() } else { None }.into_python(py));
        context.setattr("_saved", PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)?)
    }

    /// The gradients of the tensors among the arguments. What is left over may be `None`, as in PyTorch.
    fn read_gradients(&self, made: &Object<'_>) -> PyResult<Vec<Option<Tensor>>> {
        let mut items: Vec<Object<'_>> = match made.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![made.clone()],
        };
        let expected = self.arguments.len();
        while items.len() > expected && items.last().is_some_and(|item| item.is_none()) {
            items.pop();
        }
        if items.len() != expected {
            let message = format!(
                "function {} returned an incorrect number of gradients (expected {expected}, got {})",
                self.name,
                items.len()
            );
            return Err(PyRuntimeError::new_err(message));
        }
        let pairs = items.iter().zip(&self.arguments).enumerate();
        let read = pairs.map(|(i, (item, is_tensor))| self.read_gradient(i, item, *is_tensor));
        Ok(read.collect::<PyResult<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// `None` for what is no tensor, and has none.
    fn read_gradient(
        &self,
        i: usize,
        item: &Object<'_>,
        is_tensor: bool,
    ) -> PyResult<Option<Option<Tensor>>> {
        match (tensor_in(item), is_tensor) {
            (Some(grad), true) => Ok(Some(Some(grad.clone()))),
            (None, true) if item.is_none() => Ok(Some(None)),
            (None, false) if item.is_none() => Ok(None),
            (_, false) => Err(PyRuntimeError::new_err(format!(
                "function {} returned a gradient different from None at position {}, but the corresponding forward input was \
                 not a Variable",
                self.name,
                i + 1
            ))),
            _ => Err(PyRuntimeError::new_err(format!(
                "function {} returned a gradient of type {} at position {}, expected a Tensor or None",
                self.name,
                type_name(item),
                i + 1
            ))),
        }
    }
}

/// The tensors of a tuple; what was marked must be tensors.
fn tensors_of(value: &Object<'_>, what: &str) -> PyResult<Vec<Tensor>> {
    let read = |item: Object<'_>| {
        let wrong = || PyTypeError::new_err(format!("{what}: expected tensors but got {}", type_name(&item)));
        tensor_in(&item).cloned().ok_or_else(wrong)
    };
    value.cast::<PyTuple>()?.iter().map(read).collect()
}

/// Calls `forward` of the class with the context and the arguments, and records it.
#[pyfunction]
fn _apply_function<'py>(
    class: &Object<'py>,
    context: &Object<'py>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Object<'py>> {
    let py = class.py();
    let values: Vec<Object<'py>> = arguments.iter().collect();
    let inputs: Vec<&Tensor> = values.iter().filter_map(tensor_in).collect();
    let outputs = Arc::new(OnceLock::new());
    let function = PyFunction {
        class: Held::new(class.clone().unbind()),
        context: Held::new(context.clone().unbind()),
        name: format!("{}Backward", class.getattr("__name__")?.extract::<String>()?),
        once: class.getattr("backward")?.hasattr("_once_differentiable")?,
        arguments: values.iter().map(|value| tensor_in(value).is_some()).collect(),
        outputs: Arc::clone(&outputs),
        saved: OnceLock::new(),
        given: Mutex::new(Some(arguments.clone().unbind())),
    };
    let made = apply(function, &inputs).map_err(raise)?;
    let Some(returned) = outputs.get() else {
        return Err(PyRuntimeError::new_err("forward was not called"));
    };
    let mut made = made.into_iter();
    let items = PyList::empty(py);
    for other in &returned.others {
        match other {
            Some(other) => items.append(other)?,
            None => items.append(made.next().into_python(py)?)?,
        }
    }
    if returned.single { items.get_item(0) } else { Ok(items.to_tuple().into_any()) }
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_apply_function, module)?)
}
