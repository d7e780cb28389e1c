//! What all optimisers have in common: groups of parameters with their options, and what is remembered of each.

use crate::StateDict;
use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Device, Error, ErrorKind, Result, ScalarType, bail, ensure};
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

/// What a step asks memory for.
pub(super) struct Needs<H> {
    /// What is remembered of each parameter, zeros at first.
    pub(super) remembered: fn(&H) -> &'static [&'static str],
    /// How many tensors like a parameter are needed at a time.
    pub(super) room: fn(&H) -> usize,
}

impl<H> Needs<H> {
    #[inline]
    fn is_some(&self, options: &H) -> bool {
        (self.room)(options) > 0 || !(self.remembered)(options).is_empty()
    }
}

/// Tensors for what is computed on the way, of which each parameter's take the place of the last one's.
#[derive(Default)]
pub(super) struct Room {
    asides: Vec<Aside>,
    /// What is remembered from this step on.
    begun: Vec<Tensor>,
}

/// Those of parameters of one kind: how long they must be, and then they themselves.
struct Aside {
    kind: (ScalarType, Device),
    lengths: Vec<i64>,
    tensors: Vec<Tensor>,
}

impl Room {
    fn fit(&mut self, param: &Tensor, count: usize) {
        let kind = (param.dtype(), param.device());
        let place = self.asides.iter().position(|aside| aside.kind == kind).unwrap_or(self.asides.len());
        if place == self.asides.len() {
            self.asides.push(Aside { kind, lengths: Vec::new(), tensors: Vec::new() });
        }
        let lengths = &mut self.asides[place].lengths;
        lengths.resize(lengths.len().max(count), 0);
        lengths[..count].iter_mut().for_each(|length| *length = (*length).max(param.numel()));
    }

    fn allocate(&mut self) -> Result<()> {
        for aside in &mut self.asides {
            for length in &aside.lengths {
                aside.tensors.push(Tensor::empty(&[*length], aside.kind)?);
            }
        }
        Ok(())
    }

    /// Whether `tensor` is remembered from this step on.
    pub(super) fn has_begun(&self, tensor: &Tensor) -> bool {
        self.begun.iter().any(|other| other.is_same(tensor))
    }

    /// Number `place` of those like `param`.
    pub(super) fn aside(&self, param: &Tensor, place: usize) -> Result<Tensor> {
        let kind = (param.dtype(), param.device());
        let found =
            self.asides.iter().find(|aside| aside.kind == kind).and_then(|aside| aside.tensors.get(place));
        let Some(tensor) = found else { bail!(Internal, "a step needs more room than it said") };
        tensor.slice(0, Some(0), Some(param.numel()), 1)?.view(param.sizes())
    }

    /// The gradient that a step goes by: turned round to maximise, and with weight decay; in place 0 unless it is `grad` itself.
    #[inline]
    pub(super) fn gradient(
        &self,
        param: &Tensor,
        grad: Tensor,
        maximize: bool,
        decay: f64,
    ) -> Result<Tensor> {
        if !maximize && decay == 0.0 {
            return Ok(grad);
        }
        self.changed_gradient(param, grad, maximize, decay)
    }

    fn changed_gradient(
        &self,
        param: &Tensor,
        mut grad: Tensor,
        maximize: bool,
        decay: f64,
    ) -> Result<Tensor> {
        if maximize {
            let turned = self.aside(param, 0)?;
            ops::neg_out(&grad, &turned)?;
            grad = turned;
        }
        if decay != 0.0 {
            let decayed = self.aside(param, 0)?;
            ops::add_out(&grad, param, decay.into(), &decayed)?;
            grad = decayed;
        }
        Ok(grad)
    }
}

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

    /// Calls `update` with options, parameter, gradient, memory and room of each parameter that has a gradient. What the step
    /// needs is set aside before: one that runs out of memory changes nothing.
    #[inline]
    pub(super) fn each(
        &mut self,
        needs: Needs<H>,
        mut update: impl FnMut(&H, &Tensor, Tensor, &mut Memory, &Room) -> Result<()>,
    ) -> Result<()> {
        let _guard = no_grad();
        let mut room = Room::default();
        if self.groups.iter().any(|group| needs.is_some(&group.options)) {
            room = self.set_aside(&needs)?;
        }
        let mut memories = self.memories.iter_mut();
        for group in &self.groups {
            for (param, memory) in group.params.iter().zip(memories.by_ref()) {
                if let Some(grad) = param.grad() {
                    update(&group.options, param, grad, memory, &room)?;
                }
            }
        }
        Ok(())
    }

    /// Makes what is remembered of parameters that are new, and room for what is computed on the way.
    fn set_aside(&mut self, needs: &Needs<H>) -> Result<Room> {
        let mut room = Room::default();
        let mut begun = Vec::new();
        let mut memories = self.memories.iter().enumerate();
        for group in &self.groups {
            for (param, (index, memory)) in group.params.iter().zip(memories.by_ref()) {
                if param.grad().is_none() {
                    continue;
                }
                room.fit(param, (needs.room)(&group.options));
                for name in (needs.remembered)(&group.options) {
                    if !memory.contains_key(name) {
                        let zeros = Tensor::zeros(param.sizes(), (param.dtype(), param.device()))?;
                        begun.push((index, *name, zeros));
                    }
                }
            }
        }
        room.allocate()?;
        for (index, name, zeros) in begun {
            room.begun.push(zeros.clone());
            self.memories[index].insert(name, zeros);
        }
        Ok(room)
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
