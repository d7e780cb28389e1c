//! What all optimisers have in common: groups of parameters with their options, and what is remembered of each.

use crate::StateDict;
use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Error, ErrorKind, Result, bail, ensure};
use flambeau_ops::{Tensor, ops};
use std::collections::BTreeMap;

/// Options of an optimiser, as named numbers: what is saved with its state.
pub trait Hyper: Clone {
    /// Checks that they make sense.
    ///
    /// # Errors
    /// `InvalidArgument` naming the one that does not.
    fn check(&self) -> Result<()>;

    /// Every option by name; yes and no are 1 and 0.
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)>;

    /// The learning rate.
    fn lr(&mut self) -> &mut f64;
}

/// An option that can be read and set as a number.
pub enum Field<'a> {
    /// A number.
    Number(&'a mut f64),
    /// Yes or no.
    Flag(&'a mut bool),
}

impl Field<'_> {
    fn get(&self) -> f64 {
        match self {
            Field::Number(value) => **value,
            Field::Flag(value) => f64::from(u8::from(**value)),
        }
    }

    fn set(&mut self, to: f64) {
        match self {
            Field::Number(value) => **value = to,
            Field::Flag(value) => **value = to != 0.0,
        }
    }
}

/// Parameters that are moved with the same options.
#[derive(Debug, Clone)]
pub struct ParamGroup<H> {
    /// Leaves that ask for a gradient.
    pub params: Vec<Tensor>,
    /// Their options.
    pub options: H,
}

/// What is remembered of one parameter, by name.
pub(super) type Memory = BTreeMap<&'static str, Tensor>;

/// Groups, and what is remembered of each parameter in them.
#[derive(Debug)]
pub(super) struct Groups<H> {
    pub(super) groups: Vec<ParamGroup<H>>,
    memories: Vec<Memory>,
}

impl<H: Hyper> Groups<H> {
    pub(super) fn new(groups: Vec<ParamGroup<H>>) -> Result<Self> {
        let mut params: Vec<&Tensor> = Vec::new();
        for group in &groups {
            group.options.check()?;
            for param in &group.params {
                ensure!(
                    param.is_leaf() && param.requires_grad(),
                    Autograd,
                    "expected parameters to optimise that are leaves and require a gradient but got {param:?}"
                );
                ensure!(
                    !params.iter().any(|other| other.is_same(param)),
                    InvalidArgument,
                    "expected each parameter to optimise once but got {param:?} twice"
                );
                params.push(param);
            }
        }
        let memories = vec![Memory::new(); params.len()];
        Ok(Groups { groups, memories })
    }

    /// Calls `update` with options, parameter, gradient and memory of each parameter that has a gradient.
    pub(super) fn each(
        &mut self,
        mut update: impl FnMut(&H, &Tensor, Tensor, &mut Memory) -> Result<()>,
    ) -> Result<()> {
        let _guard = no_grad();
        let mut memories = self.memories.iter_mut();
        for group in &self.groups {
            for (param, memory) in group.params.iter().zip(memories.by_ref()) {
                if let Some(grad) = param.grad() {
                    update(&group.options, param, grad, memory)?;
                }
            }
        }
        Ok(())
    }

    fn params(&self) -> impl Iterator<Item = &Tensor> {
        self.groups.iter().flat_map(|group| &group.params)
    }

    pub(super) fn zero_grad(&self) -> Result<()> {
        self.params().try_for_each(|param| param.set_grad(None))
    }

    pub(super) fn learning_rates(&self) -> Vec<f64> {
        self.groups.iter().map(|group| *group.options.clone().lr()).collect()
    }

    pub(super) fn set_learning_rates(&mut self, rates: &[f64]) -> Result<()> {
        ensure!(
            rates.len() == self.groups.len(),
            InvalidArgument,
            "expected a learning rate for each of {} groups but got {}",
            self.groups.len(),
            rates.len()
        );
        rates.iter().try_for_each(|rate| check_rate(*rate))?;
        self.groups.iter_mut().zip(rates).for_each(|(group, rate)| *group.options.lr() = *rate);
        Ok(())
    }

    pub(super) fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        for (i, group) in self.groups.iter().enumerate() {
            for (name, field) in group.options.clone().fields() {
                state.insert(format!("group.{i}.{name}"), Tensor::from(field.get()));
            }
        }
        for (i, memory) in self.memories.iter().enumerate() {
            for (name, tensor) in memory {
                state.insert(format!("state.{i}.{name}"), tensor.clone());
            }
        }
        Ok(state)
    }

    /// Takes over options and memories; `names` are what may be remembered of a parameter: tensors of its own sizes and type,
    /// but for `step`, one f64.
    pub(super) fn load_state_dict(&mut self, state: &StateDict, names: &[&'static str]) -> Result<()> {
        let mut groups: Vec<H> = self.groups.iter().map(|group| group.options.clone()).collect();
        let mut used = 0;
        for (i, options) in groups.iter_mut().enumerate() {
            for (name, mut field) in options.fields() {
                let key = format!("group.{i}.{name}");
                let value = state.get(&key).ok_or_else(|| missing(&key))?;
                field.set(value.item::<f64>().map_err(|e| e.context(format!("load_state_dict: `{key}`")))?);
                used += 1;
            }
            options.check()?;
        }
        let memories: Result<Vec<Memory>> =
            self.params().enumerate().map(|(i, param)| memory_of(i, param, state, names)).collect();
        let memories = memories?;
        used += memories.iter().map(Memory::len).sum::<usize>();
        if used != state.len() {
            bail!(InvalidArgument, "load_state_dict: unexpected key `{}`", self.stranger(state, names));
        }
        self.memories = memories;
        self.groups.iter_mut().zip(groups).for_each(|(group, options)| group.options = options);
        Ok(())
    }

    /// A key that belongs to no group and no parameter.
    fn stranger(&self, state: &StateDict, names: &[&'static str]) -> String {
        let mut known: Vec<String> = Vec::new();
        for (i, group) in self.groups.iter().enumerate() {
            known.extend(group.options.clone().fields().iter().map(|(name, _)| format!("group.{i}.{name}")));
        }
        for i in 0..self.memories.len() {
            known.extend(names.iter().map(|name| format!("state.{i}.{name}")));
        }
        state.keys().find(|key| !known.contains(key)).cloned().unwrap_or_default()
    }
}

/// Copies of what `state` has of parameter `i`.
fn memory_of(i: usize, param: &Tensor, state: &StateDict, names: &[&'static str]) -> Result<Memory> {
    let mut memory = Memory::new();
    for name in names {
        let key = format!("state.{i}.{name}");
        let Some(tensor) = state.get(&key) else { continue };
        let (sizes, dtype) = match *name {
            "step" => (&[][..], flambeau_core::ScalarType::F64),
            _ => (param.sizes(), param.dtype()),
        };
        if tensor.sizes() != sizes {
            bail!(
                Shape,
                "load_state_dict: expected sizes {sizes:?} for `{key}` but got {:?}",
                tensor.sizes()
            );
        }
        if tensor.dtype() != dtype {
            bail!(Dtype, "load_state_dict: expected {dtype} for `{key}` but got {}", tensor.dtype());
        }
        memory.insert(name, ops::clone(tensor, None)?);
    }
    Ok(memory)
}

fn missing(key: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("load_state_dict: missing key `{key}`"))
}

/// A learning rate is a number of at least 0.
pub(super) fn check_rate(lr: f64) -> Result<()> {
    check_at_least_zero("lr", lr)
}

pub(super) fn check_at_least_zero(name: &str, value: f64) -> Result<()> {
    ensure!(value >= 0.0, InvalidArgument, "expected {name} of at least 0 but got {value}");
    Ok(())
}
