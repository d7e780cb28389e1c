//! The error where no overload fits: the types that were given, and the signatures that exist.

use super::accepts::{accepts, is_index};
use super::bind::Given;
use super::signature::{Kind, Overload, Parameter, Signature};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// PyTorch's message: the fault itself if there is one overload, and otherwise the list of all overloads.
#[cold]
pub(super) fn error(signature: &Signature, given: &Given<'_, '_>) -> PyErr {
    let fits = |overload: &&Overload| match given.receiver {
        Some(_) => overload.receiver.is_some(),
        None => overload.function,
    };
    let candidates: Vec<&Overload> = signature.overloads.iter().filter(fits).collect();
    if let [only] = candidates.as_slice() {
        return PyTypeError::new_err(format!("{}{}", signature.name, fault(only, given)));
    }
    let forms: Vec<String> =
        candidates.iter().map(|overload| format!(" * {}", form(overload, given))).collect();
    PyTypeError::new_err(format!(
        "{}() received an invalid combination of arguments - got {}, but expected one of:\n{}\n",
        signature.name,
        types(given),
        forms.join("\n")
    ))
}

/// `(Tensor, other=str)`
fn types(given: &Given<'_, '_>) -> String {
    let positional = given.positional.iter().map(type_name);
    let named =
        names(given).into_iter().zip(given.named).map(|(name, value)| format!("{name}={}", type_name(value)));
    format!("({})", positional.chain(named).collect::<Vec<_>>().join(", "))
}

fn names(given: &Given<'_, '_>) -> Vec<String> {
    given.names.map_or(vec![], |names| names.iter_borrowed().map(|name| name.to_string()).collect())
}

pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// `(Tensor input, Tensor other, *, Number alpha = 1)`, without the receiver of a method.
fn form(overload: &Overload, given: &Given<'_, '_>) -> String {
    let mut parts = vec![];
    let mut starred = false;
    for parameter in visible_parameters(overload, given) {
        if parameter.keyword && !starred {
            parts.push("*".to_owned());
            starred = true;
        }
        let default = parameter.default.map_or(String::new(), |default| format!(" = {default}"));
        parts.push(format!("{} {}{default}", parameter.kind.describe(), parameter.name));
    }
    format!("({})", parts.join(", "))
}

/// The parameters but for the receiver.
fn visible_parameters<'a>(
    overload: &'a Overload,
    given: &Given<'_, '_>,
) -> impl Iterator<Item = &'a Parameter> {
    let hidden = overload.receiver.filter(|_| given.receiver.is_some());
    overload.parameters.iter().enumerate().filter(move |(index, _)| Some(*index) != hidden).map(|(_, p)| p)
}

/// What is wrong with a call that has one form.
fn fault(overload: &Overload, given: &Given<'_, '_>) -> String {
    let parameters: Vec<&Parameter> = visible_parameters(overload, given).collect();
    let positional: Vec<&&Parameter> = parameters.iter().filter(|parameter| !parameter.keyword).collect();
    // `x.view(2, 3)` gives one argument.
    let unpacked = matches!(positional.as_slice(), [only] if matches!(only.kind, Kind::Ints(_)))
        && given.positional.iter().all(is_index);
    let used = if unpacked { given.positional.len().min(1) } else { given.positional.len() };
    if used > positional.len() {
        return format!(
            "() takes {} positional arguments but {} were given",
            positional.len(),
            given.positional.len()
        );
    }
    for (index, (value, parameter)) in given.positional.iter().zip(&positional).enumerate() {
        if !unpacked && !fits(parameter, value) {
            return wrong_type(parameter, Some(index + 1), value);
        }
    }
    let names = names(given);
    for (name, value) in names.iter().zip(given.named) {
        match parameters.iter().position(|parameter| parameter.has_name(name)) {
            None => return format!("() got an unexpected keyword argument '{name}'"),
            Some(index) if index < used => {
                return format!("() got multiple values for argument '{name}'");
            }
            Some(index) if !fits(parameters[index], value) => {
                return wrong_type(parameters[index], None, value);
            }
            Some(_) => {}
        }
    }
    missing(&parameters, used, &names)
}

fn fits(parameter: &Parameter, value: &Bound<'_, PyAny>) -> bool {
    accepts(parameter.kind, value) || (value.is_none() && parameter.takes_none())
}

fn wrong_type(parameter: &Parameter, position: Option<usize>, value: &Bound<'_, PyAny>) -> String {
    let position = position.map_or(String::new(), |position| format!(" (position {position})"));
    let expected = parameter.kind.describe();
    format!("(): argument '{}'{position} must be {expected}, not {}", parameter.name, type_name(value))
}

fn missing(parameters: &[&Parameter], given: usize, names: &[String]) -> String {
    let absent = |parameter: &&&Parameter| {
        parameter.default.is_none() && !names.iter().any(|name| parameter.has_name(name))
    };
    let missing: Vec<String> = parameters
        .iter()
        .skip(given)
        .filter(absent)
        .map(|parameter| format!("\"{}\"", parameter.name))
        .collect();
    format!("() missing {} required positional arguments: {}", missing.len(), missing.join(", "))
}

impl Kind {
    /// As PyTorch's messages call it.
    fn describe(self) -> &'static str {
        match self {
            Kind::Tensor | Kind::TensorOrNumber => "Tensor",
            Kind::Tensors | Kind::OptionalTensors => "tuple of Tensors",
            Kind::Scalar => "Number",
            Kind::Int => "int",
            Kind::Ints(_) => "tuple of ints",
            Kind::Float => "float",
            Kind::Scalars => "tuple of Numbers",
            Kind::Floats => "tuple of floats",
            Kind::Boolean => "bool",
            Kind::String => "str",
            Kind::Dtype => "dtype",
            Kind::Layout => "layout",
            Kind::Device => "device",
            Kind::MemoryFormat => "memory format",
            Kind::Generator => "Generator",
        }
    }
}
