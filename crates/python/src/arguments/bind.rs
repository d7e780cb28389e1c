//! Puts what was given in the places of one overload's parameters, if it fits.

use super::accepts::{accepts, is_index};
use super::signature::{Kind, Overload, Parameter};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::cell::Cell;

/// More than any operator has.
pub(super) const MOST: usize = 20;

/// What a caller gave: the receiver of a method, the values in order, the values by name.
pub(crate) struct Given<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) receiver: Option<&'a Bound<'py, PyAny>>,
    pub(crate) positional: &'a [Bound<'py, PyAny>],
    pub(crate) named: &'a [Bound<'py, PyAny>],
    pub(crate) names: Option<&'a Bound<'py, PyTuple>>,
}

impl<'a, 'py> Given<'a, 'py> {
    /// The value given by a name of `parameter`.
    fn by_name(&self, parameter: &Parameter) -> Option<&'a Bound<'py, PyAny>> {
        let names = self.names?;
        self.named.iter().enumerate().find_map(|(index, value)| {
            let name = names.get_borrowed_item(index).ok()?;
            let name = name.cast::<PyString>().ok()?;
            name.to_str().is_ok_and(|name| parameter.has_name(name)).then_some(value)
        })
    }
}

/// The values in the places of the parameters; absent where the default holds.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(super) parameters: &'static [Parameter],
    pub(super) values: [Option<&'a Bound<'py, PyAny>>; MOST],
    /// The integers of a first list that was given as `x.view(2, 3)`.
    pub(super) spread: Option<&'a [Bound<'py, PyAny>]>,
    /// Whether the operator is worth giving up the interpreter's lock for.
    pub(super) large: Cell<bool>,
}

/// The arguments, if each value is of a type that its parameter takes and none is left over or missing.
#[inline]
pub(super) fn bind<'a, 'py>(
    overload: &'static Overload,
    given: &Given<'a, 'py>,
) -> Option<Arguments<'a, 'py>> {
    let parameters = overload.parameters;
    let receiver = match given.receiver {
        Some(_) => Some(overload.receiver?),
        None if overload.function => None,
        None => return None,
    };
    let mut values = [None; MOST];
    let mut spread = None;
    let (mut positional, mut named) = (0, 0);
    for (index, parameter) in parameters.iter().enumerate() {
        if receiver == Some(index) {
            values[index] = given.receiver;
            continue;
        }
        let next = given.positional.get(positional).filter(|_| !parameter.keyword);
        if let Some(first) = next
            && is_spread(parameters, receiver, given, index, first)
        {
            spread = Some(given.positional);
            values[index] = Some(first);
            positional = given.positional.len();
            continue;
        }
        let value = match next {
            Some(value) => {
                positional += 1;
                Some(value)
            }
            None if named < given.named.len() => {
                let value = given.by_name(parameter);
                named += usize::from(value.is_some());
                value
            }
            None => None,
        };
        match value {
            Some(value) if accepts(parameter.kind, value) => values[index] = Some(value),
            Some(value) if value.is_none() && (parameter.nullable || parameter.default == Some("None")) => {}
            None if parameter.default.is_some() => {}
            _ => return None,
        }
    }
    let complete = positional == given.positional.len() && named == given.named.len();
    complete.then(|| Arguments { py: given.py, parameters, values, spread, large: Cell::new(false) })
}

/// Whether the integers of the only positional parameter were given one by one.
fn is_spread(
    parameters: &[Parameter],
    receiver: Option<usize>,
    given: &Given<'_, '_>,
    index: usize,
    first: &Bound<'_, PyAny>,
) -> bool {
    let others = || {
        parameters.iter().enumerate().filter(|(at, p)| !p.keyword && Some(*at) != receiver && *at != index)
    };
    matches!(parameters[index].kind, Kind::Ints(_))
        && is_index(first)
        && others().next().is_none()
        && given.positional.iter().all(is_index)
}

impl Arguments<'_, '_> {
    /// Whether the operator is worth giving up the interpreter's lock for, as far as the values taken out so far tell.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.large.get()
    }
}
