//! What all optimizers have in common: parameter groups with their options, and the state of each parameter.

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
    /// Leaves that require a gradient.
    pub params: Vec<Tensor>,
    /// Their options.
    pub options: H,
}

/// The optimiser's state of one parameter, by name.
pub(super) type ParamState = BTreeMap<&'static str, Tensor>;

/// The tensors that a step allocates before it changes anything.
pub(super) struct Needs<H> {
    /// The names of the state tensors of each parameter, which are zeros at first.
    pub(super) state_names: fn(&H) -> &'static [&'static str],
    /// How many scratch tensors of a parameter's size are needed at a time.
    pub(super) scratch_count: fn(&H) -> usize,
}

impl<H> Needs<H> {
    #[inline]
    fn is_some(&self, options: &H) -> bool {
        (self.scratch_count)(options) > 0 || !(self.state_names)(options).is_empty()
    }
}

/// Scratch tensors for intermediate results of an update, which all parameters reuse.
#[derive(Default)]
pub(super) struct Scratch {
    buffers: Vec<Buffers>,
    /// State tensors that this step has created.
    created: Vec<Tensor>,
}

/// The scratch tensors for parameters of one dtype and device: the lengths that they need, and then the tensors.
struct Buffers {
    kind: (ScalarType, Device),
    lengths: Vec<i64>,
    tensors: Vec<Tensor>,
}

impl Scratch {
    fn fit(&mut self, param: &Tensor, count: usize) {
        let kind = (param.dtype(), param.device());
        let index =
            self.buffers.iter().position(|buffers| buffers.kind == kind).unwrap_or(self.buffers.len());
        if index == self.buffers.len() {
            self.buffers.push(Buffers { kind, lengths: Vec::new(), tensors: Vec::new() });
        }
        let lengths = &mut self.buffers[index].lengths;
        lengths.resize(lengths.len().max(count), 0);
        lengths[..count].iter_mut().for_each(|length| *length = (*length).max(param.numel()));
    }

    fn allocate(&mut self) -> Result<()> {
        for buffers in &mut self.buffers {
            for length in &buffers.lengths {
                buffers.tensors.push(Tensor::empty(&[*length], buffers.kind)?);
            }
        }
        Ok(())
    }

    /// Whether `tensor` is a state tensor that this step has created.
    pub(super) fn is_created(&self, tensor: &Tensor) -> bool {
        self.created.iter().any(|other| other.is_same(tensor))
    }

    /// Scratch tensor number `index` of the sizes, dtype and device of `param`.
    pub(super) fn buffer(&self, param: &Tensor, index: usize) -> Result<Tensor> {
        let kind = (param.dtype(), param.device());
        let found = self
            .buffers
            .iter()
            .find(|buffers| buffers.kind == kind)
            .and_then(|buffers| buffers.tensors.get(index));
        let Some(tensor) = found else {
            bail!(Internal, "a step needs more scratch tensors than it declared")
        };
        tensor.slice(0, 0, param.numel())?.view(param.sizes())
    }

    /// The gradient that a step uses: negated to maximise, and with weight decay; in scratch tensor 0 unless it is `grad` itself.
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
            let negated = self.buffer(param, 0)?;
            ops::neg_out(&grad, &negated)?;
            grad = negated;
        }
        if decay != 0.0 {
            let decayed = self.buffer(param, 0)?;
            ops::add_out(&grad, param, decay.into(), &decayed)?;
            grad = decayed;
        }
        Ok(grad)
    }
}

/// Groups, and the state of each parameter in them.
#[derive(Debug)]
pub(super) struct Groups<H> {
    pub(super) groups: Vec<ParamGroup<H>>,
    states: Vec<ParamState>,
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
                    "expected parameters to optimise that are leaves and require a gradient but got {}",
                    param.signature()
                );
                ensure!(
                    !params.iter().any(|other| other.is_same(param)),
                    InvalidArgument,
                    "expected each parameter to optimise once but got {} twice",
                    param.signature()
                );
                params.push(param);
            }
        }
        let states = vec![ParamState::new(); params.len()];
        Ok(Groups { groups, states })
    }

    /// Calls `update` with options, parameter, gradient, state and scratch tensors of each parameter that has a gradient. What the
    /// step needs is allocated before: a step that runs out of memory changes nothing.
    #[inline]
    pub(super) fn each(
        &mut self,
        needs: Needs<H>,
        mut update: impl FnMut(&H, &Tensor, Tensor, &mut ParamState, &Scratch) -> Result<()>,
    ) -> Result<()> {
        let _guard = no_grad();
        let mut scratch = Scratch::default();
        if self.groups.iter().any(|group| needs.is_some(&group.options)) {
            scratch = self.allocate_state(&needs)?;
        }
        let mut states = self.states.iter_mut();
        for group in &self.groups {
            for (param, param_state) in group.params.iter().zip(states.by_ref()) {
                if let Some(grad) = param.grad() {
                    update(&group.options, param, grad, param_state, &scratch)?;
                }
            }
        }
        Ok(())
    }

    /// Creates the missing state of parameters, and the scratch tensors of the step.
    fn allocate_state(&mut self, needs: &Needs<H>) -> Result<Scratch> {
        let mut scratch = Scratch::default();
        let mut created = Vec::new();
        let mut states = self.states.iter().enumerate();
        for group in &self.groups {
            for (param, (index, param_state)) in group.params.iter().zip(states.by_ref()) {
                if param.grad().is_none() {
                    continue;
                }
                scratch.fit(param, (needs.scratch_count)(&group.options));
                for name in (needs.state_names)(&group.options) {
                    if !param_state.contains_key(name) {
                        let zeros = Tensor::zeros(param.sizes(), (param.dtype(), param.device()))?;
                        created.push((index, *name, zeros));
                    }
                }
            }
        }
        scratch.allocate()?;
        for (index, name, zeros) in created {
            scratch.created.push(zeros.clone());
            self.states[index].insert(name, zeros);
        }
        Ok(scratch)
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
        for (i, param_state) in self.states.iter().enumerate() {
            for (name, tensor) in param_state {
                state.insert(format!("state.{i}.{name}"), tensor.clone());
            }
        }
        Ok(state)
    }

    /// Takes over options and states; `names` are the state tensors that a parameter may have: tensors of its own sizes and type,
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
        let states: Result<Vec<ParamState>> =
            self.params().enumerate().map(|(i, param)| state_of(i, param, state, names)).collect();
        let states = states?;
        used += states.iter().map(ParamState::len).sum::<usize>();
        if used != state.len() {
            bail!(InvalidArgument, "load_state_dict: unexpected key `{}`", self.unexpected_key(state, names));
        }
        self.states = states;
        self.groups.iter_mut().zip(groups).for_each(|(group, options)| group.options = options);
        Ok(())
    }

    /// A key that belongs to no group and no parameter.
    fn unexpected_key(&self, state: &StateDict, names: &[&'static str]) -> String {
        let mut known: Vec<String> = Vec::new();
        for (i, group) in self.groups.iter().enumerate() {
            known.extend(group.options.clone().fields().iter().map(|(name, _)| format!("group.{i}.{name}")));
        }
        for i in 0..self.states.len() {
            known.extend(names.iter().map(|name| format!("state.{i}.{name}")));
        }
        state.keys().find(|key| !known.contains(key)).cloned().unwrap_or_default()
    }
}

/// Copies of what `state` has of parameter `i`.
fn state_of(i: usize, param: &Tensor, state: &StateDict, names: &[&'static str]) -> Result<ParamState> {
    let mut param_state = ParamState::new();
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
        param_state.insert(name, ops::clone(tensor, None)?);
    }
    Ok(param_state)
}

fn missing(key: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("load_state_dict: missing key `{key}`"))
}

/// The number of this step, from 1.
pub(super) fn advance(state: &mut ParamState) -> Result<f64> {
    let step = state.get("step").map_or(Ok(0.0), Tensor::item::<f64>)? + 1.0;
    state.insert("step", Tensor::from(step));
    Ok(step)
}

/// The state tensor `name` of a parameter, allocated before the step.
pub(super) fn state_tensor(state: &ParamState, name: &str) -> Result<Tensor> {
    let Some(tensor) = state.get(name) else { bail!(Internal, "a step needs `{name}`, which is not there") };
    Ok(tensor.clone())
}

/// An optimiser: its documentation, name and options, what a step needs, the names of its state, and the update of one parameter.
macro_rules! optimizer {
    ($(#[$doc:meta])* $name:ident<$options:ty>, $needs:expr, $names:expr, $update:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($crate::optim::group::Groups<$options>);

        impl $name {
            /// One group of parameters.
            ///
            /// # Errors
            /// `InvalidArgument` for options out of range and parameters given twice, `Autograd` for tensors that are no
            /// leaves or require no gradient.
            pub fn new(params: Vec<::flambeau_ops::Tensor>, options: $options) -> ::flambeau_core::Result<Self> {
                Self::with_groups(vec![$crate::optim::ParamGroup { params, options }])
            }

            /// Several groups.
            ///
            /// # Errors
            /// Those of [`new`](Self::new).
            pub fn with_groups(groups: Vec<$crate::optim::ParamGroup<$options>>) -> ::flambeau_core::Result<Self> {
                let groups = $crate::optim::group::Groups::new(groups);
                groups.map(Self).map_err(|e| e.context(stringify!($name)))
            }

            /// The groups.
            pub fn groups(&self) -> &[$crate::optim::ParamGroup<$options>] {
                &self.0.groups
            }
        }

        impl $crate::optim::Optimizer for $name {
            fn step(&mut self) -> ::flambeau_core::Result<()> {
                self.0.each($needs, $update)
            }

            fn zero_grad(&self) -> ::flambeau_core::Result<()> {
                self.0.zero_grad()
            }

            fn learning_rates(&self) -> Vec<f64> {
                self.0.learning_rates()
            }

            fn set_learning_rates(&mut self, rates: &[f64]) -> ::flambeau_core::Result<()> {
                self.0.set_learning_rates(rates)
            }

            fn state_dict(&self) -> ::flambeau_core::Result<$crate::StateDict> {
                self.0.state_dict()
            }

            fn load_state_dict(&mut self, state: &$crate::StateDict) -> ::flambeau_core::Result<()> {
                self.0.load_state_dict(state, $names)
            }
        }
    };
}

/// A learning rate is a number of at least 0.
pub(super) fn check_rate(lr: f64) -> Result<()> {
    check_at_least_zero("lr", lr)
}

pub(super) fn check_at_least_zero(name: &str, value: f64) -> Result<()> {
    ensure!(value >= 0.0, InvalidArgument, "expected {name} of at least 0 but got {value}");
    Ok(())
}
