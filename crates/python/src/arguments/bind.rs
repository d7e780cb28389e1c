//! Assigns the values of a call to the parameters of one overload, if they fit.

use super::accepts::{accepts, is_index};
use super::signature::{Kind, Overload, Parameter};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::cell::Cell;

/// More parameters than any operator has.
pub(super) const MAX_PARAMETERS: usize = 20;

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

/// One value per parameter; `None` where the default holds.
pub(crate) struct Arguments<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(super) parameters: &'static [Parameter],
    pub(super) values: [Option<&'a Bound<'py, PyAny>>; MAX_PARAMETERS],
    /// The integers of a first list that was given as `x.view(2, 3)`.
    pub(super) unpacked: Option<&'a [Bound<'py, PyAny>]>,
    /// Whether the operator runs so long that the interpreter's lock is released meanwhile.
    pub(super) large: Cell<bool>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// No values yet.
    #[inline]
    pub(super) fn new(py: Python<'py>, parameters: &'static [Parameter]) -> Self {
        Arguments { py, parameters, values: [None; MAX_PARAMETERS], unpacked: None, large: Cell::new(false) }
    }

    /// Assigns the given values; whether each has a type that its parameter takes, and none is left over or missing.
    #[inline]
    pub(super) fn bind(&mut self, overload: &'static Overload, given: &Given<'a, 'py>) -> bool {
        let receiver = match given.receiver {
            Some(_) if overload.receiver.is_some() => overload.receiver,
            None if overload.function => None,
            _ => return false,
        };
        let (mut used, mut named) = (0, 0);
        for (index, parameter) in self.parameters.iter().enumerate() {
            if receiver == Some(index) {
                self.values[index] = given.receiver;
                continue;
            }
            let next = given.positional.get(used).filter(|_| !parameter.keyword);
            if let Some(first) = next
                && is_unpacked(self.parameters, receiver, given, index, first)
            {
                (self.unpacked, self.values[index]) = (Some(given.positional), next);
                used = given.positional.len();
                continue;
            }
            used += usize::from(next.is_some());
            let value = match next {
                None if named < given.named.len() => {
                    let value = given.by_name(parameter);
                    named += usize::from(value.is_some());
                    value
                }
                next => next,
            };
            match value {
                Some(value) if accepts(parameter.kind, value) => self.values[index] = Some(value),
                Some(value) if value.is_none() && parameter.takes_none() => {}
                None if parameter.default.is_some() => {}
                _ => return false,
            }
        }
        used == given.positional.len() && named == given.named.len()
    }

    /// Whether the operator runs so long that the interpreter's lock is released meanwhile, by the values taken out so far.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.large.get()
    }
}

/// Whether the integers of the only positional parameter were given one by one.
fn is_unpacked(
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
