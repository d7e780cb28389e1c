//! What every model is: parts whose parameters and buffers can be listed, and most are functions of a tensor.

use crate::visit::{Kind, Training, Visitor, VisitorMut};
use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Device, Result, ScalarType, TensorOptions, backend, bail, ensure};
use flambeau_ops::{Tensor, ops};
use std::collections::{BTreeMap, BTreeSet};

/// Tensors by their names: `"fc1.weight"`. The tensors share their elements with what they were taken from.
pub type StateDict = BTreeMap<String, Tensor>;

/// Keys in which the module and the state given to [`Module::load_state_dict_partial`] differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyDifference {
    /// What the module has and the state has not.
    pub missing: Vec<String>,
    /// What the state has and the module has not.
    pub unexpected: Vec<String>,
}

/// A part of a model: something whose parameters, buffers and parts can be listed. It is derived:
///
/// ```
/// use flambeau_core::Result;
/// use flambeau_nn::{Forward, Linear, Module};
/// use flambeau_ops::Tensor;
///
/// #[derive(Module)]
/// struct Net {
///     hidden: Linear,
///     out: Linear,
///     #[module(buffer)]
///     shift: Tensor,
///     #[module(skip)]
///     repeats: usize,
/// }
///
/// impl Forward for Net {
///     fn forward(&self, input: &Tensor) -> Result<Tensor> {
///         let mut x = self.hidden.forward(input)?;
///         for _ in 0..self.repeats {
///             x = x.add(&self.shift)?.relu()?;
///         }
///         self.out.forward(&x)
///     }
/// }
///
/// let net = Net { hidden: Linear::new(3, 4)?, out: Linear::new(4, 2)?, shift: Tensor::ones(&[4], ())?, repeats: 2 };
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]);
/// assert_eq!(net.named_buffers()[0].0, "shift");
/// assert_eq!(net.parameter_count(), 3 * 4 + 4 + 4 * 2 + 2);
/// assert_eq!(net.forward(&Tensor::zeros(&[5, 3], ())?)?.sizes(), &[5, 2]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
///
/// Every field is a part, and its type says which: a [`Tensor`] is a parameter, or a buffer where `#[module(buffer)]` stands before
/// it; a `Module`, a [`Training`] flag, and options, vectors and arrays of these are visited too. A field of any other type has
/// `#[module(skip)]` before it: without it the struct does not compile, so that nothing trained is forgotten.
///
/// ```compile_fail,E0277
/// use flambeau_nn::{Linear, Module};
/// #[derive(Module)]
/// struct Net {
///     out: Linear,
///     width: i64, // `i64` is no part of a module
/// }
/// ```
///
/// A buffer is made of tensors:
///
/// ```compile_fail,E0277
/// use flambeau_nn::{Linear, Module};
/// #[derive(Module)]
/// struct Net {
///     #[module(buffer)]
///     out: Linear,
/// }
/// ```
///
/// Marks that say nothing are refused, and so are enums:
///
/// ```compile_fail
/// use flambeau_nn::{Linear, Module};
/// #[derive(Module)]
/// struct Net {
///     #[module(skipped)]
///     width: i64,
/// }
/// ```
///
/// ```compile_fail
/// use flambeau_nn::{Linear, Module};
/// #[derive(Module)]
/// enum Net {
///     One(Linear),
///     Two(Linear, Linear),
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no part of a module",
    label = "expected a `Tensor`, a `Module`, a `Training` flag, or an option, vector or array of these",
    note = "a field that holds nothing to train, save or switch is marked `#[module(skip)]`"
)]
pub trait Module: Send + Sync {
    /// Passes every field that holds tensors, a training flag or modules to `visitor`.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// The same for a visitor that may replace tensors.
    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>);

    /// Every parameter under its first name, once each: weights that several modules share are named once.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let mut found: Vec<(String, Tensor)> = Vec::new();
        let mut seen = BTreeSet::new();
        each_tensor(self, &mut |name, kind, tensor| {
            if kind == Kind::Parameter && seen.insert(identity(tensor)) {
                found.push((name.to_string(), tensor.clone()));
            }
        });
        found
    }

    /// Every parameter once: what an optimiser is given.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Every buffer: state that is saved but not trained, such as running means.
    fn named_buffers(&self) -> Vec<(String, Tensor)> {
        let mut found = Vec::new();
        each_tensor(self, &mut |name, kind, tensor| {
            if kind == Kind::Buffer {
                found.push((name.to_string(), tensor.clone()));
            }
        });
        found
    }

    /// Calls `each` with every module inside this one, outer before inner, and its name.
    fn for_each_module(&self, each: &mut dyn FnMut(&str, &dyn Module)) {
        self.visit(&mut Visitor::new(&mut |_, _, _| {}, &mut |_| {}, each));
    }

    /// How many numbers are trained, shared ones counted once.
    fn parameter_count(&self) -> i64 {
        self.named_parameters().iter().map(|(_, tensor)| tensor.numel()).sum()
    }

    /// Enables or disables training behaviour in every module inside: dropout, statistics of batches.
    fn train(&self, training: bool) {
        self.visit(&mut Visitor::new(
            &mut |_, _, _| {},
            &mut |flag: &Training| flag.set(training),
            &mut |_, _| {},
        ));
    }

    /// [`train(false)`](Self::train).
    fn eval(&self) {
        self.train(false);
    }

    /// Forgets every parameter's gradient.
    ///
    /// # Errors
    /// None that a parameter can cause today.
    fn zero_grad(&self) -> Result<()> {
        self.parameters().iter().try_for_each(|tensor| tensor.set_grad(None))
    }

    /// Sets `requires_grad` of every parameter: `false` freezes the module.
    ///
    /// # Errors
    /// `Autograd` where a parameter is no leaf or not of floating point.
    fn requires_grad_(&self, requires_grad: bool) -> Result<()> {
        self.parameters().iter().try_for_each(|tensor| tensor.requires_grad_(requires_grad).map(drop))
    }

    /// Parameters and buffers by name, without history, sharing their elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = Ok(StateDict::new());
        each_tensor(self, &mut |name, _, tensor| {
            if let Ok(entries) = &mut state {
                match tensor.detach() {
                    Ok(tensor) => drop(entries.insert(name.to_string(), tensor)),
                    Err(e) => state = Err(e.context(name)),
                }
            }
        });
        state
    }

    /// Copies `state` into the parameters and buffers. Nothing is written unless everything fits.
    ///
    /// # Errors
    /// `InvalidArgument` naming keys that are missing or unexpected, `Shape` and `Dtype` naming the key that does not fit.
    ///
    /// ```
    /// use flambeau_nn::{Linear, Module};
    /// let (a, b) = (Linear::new(2, 3)?, Linear::new(2, 3)?);
    /// b.load_state_dict(&a.state_dict()?)?;
    /// assert!(a.weight.detach()?.equal(&b.weight.detach()?)?);
    /// let error = Linear::new(2, 4)?.load_state_dict(&a.state_dict()?).unwrap_err();
    /// assert!(error.to_string().contains("`weight`"));
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    fn load_state_dict(&self, state: &StateDict) -> Result<()> {
        let (pairs, difference) = matched(self, state)?;
        ensure!(
            difference == KeyDifference::default(),
            InvalidArgument,
            "load_state_dict: missing keys {:?}, unexpected keys {:?}",
            difference.missing,
            difference.unexpected
        );
        copy_all(&pairs)
    }

    /// Copies what `state` and this module have in common, and says what they have not. PyTorch's `strict=False`.
    ///
    /// # Errors
    /// `Shape` and `Dtype` naming the key that does not fit; nothing is written then.
    fn load_state_dict_partial(&self, state: &StateDict) -> Result<KeyDifference> {
        let (pairs, difference) = matched(self, state)?;
        copy_all(&pairs)?;
        Ok(difference)
    }

    /// Replaces floating point parameters and buffers by copies of another floating point type. Tensors that were shared
    /// stay shared; optimisers made before know nothing of the new ones.
    ///
    /// # Errors
    /// `Dtype` unless `dtype` is of floating point; `OutOfMemory`, and then some may have been replaced.
    fn to_dtype(&mut self, dtype: ScalarType) -> Result<()> {
        ensure!(dtype.is_floating_point(), Dtype, "to_dtype: expected a floating point type but got {dtype}");
        let changes = |tensor: &Tensor| tensor.is_floating_point() && tensor.dtype() != dtype;
        replace_each(self, "to_dtype", &changes, &|tensor| TensorOptions::from((dtype, tensor.device())))
    }

    /// Replaces parameters and buffers by copies on another device. Tensors that were shared stay shared; optimisers made before
    /// know nothing of the new ones.
    ///
    /// # Errors
    /// `Device` where there is no such device or bytes do not go there; `OutOfMemory`, and then some may have been replaced.
    fn to_device(&mut self, device: Device) -> Result<()> {
        let device = backend::resolve(device)?;
        let changes = |tensor: &Tensor| tensor.device() != device;
        replace_each(self, "to_device", &changes, &|tensor| TensorOptions::from((tensor.dtype(), device)))
    }
}

/// A module that is a function of one tensor, and so can stand in a [`Sequential`](crate::Sequential). Modules of several inputs or
/// outputs have a method `forward` of their own.
pub trait Forward: Module {
    /// The output for `input`; shapes are stated by each module.
    ///
    /// # Errors
    /// Those of the operators it is made of.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;
}

/// A module that says how far an output is from what it should be.
pub trait Loss: Module {
    /// The loss of `input`, where it should be `target`.
    ///
    /// # Errors
    /// Those of the function of [`functional`](crate::functional) that it stands for.
    fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor>;
}

/// Replaces the tensors for which `changes` is true by copies with other options, each once.
fn replace_each<M: Module + ?Sized>(
    module: &mut M,
    caller: &str,
    changes: &dyn Fn(&Tensor) -> bool,
    options: &dyn Fn(&Tensor) -> TensorOptions,
) -> Result<()> {
    // The replaced tensors live until the end, so that no address is reused.
    let mut replaced: BTreeMap<usize, (Tensor, Tensor)> = BTreeMap::new();
    let mut outcome = Ok(());
    module.visit_mut(&mut VisitorMut::new(&mut |name, _, tensor| {
        if outcome.is_err() || !changes(tensor) {
            return;
        }
        let before = tensor.clone();
        match replaced.get(&identity(&before)) {
            Some((_, after)) => *tensor = after.clone(),
            None => match converted(&before, options(&before)) {
                Ok(after) => {
                    *tensor = after.clone();
                    replaced.insert(identity(&before), (before, after));
                }
                Err(e) => outcome = Err(e.context(format!("{caller}: `{name}`"))),
            },
        }
    }));
    outcome
}

fn each_tensor<M: Module + ?Sized>(module: &M, each: &mut dyn FnMut(&str, Kind, &Tensor)) {
    module.visit(&mut Visitor::new(each, &mut |_| {}, &mut |_, _| {}));
}

/// The identity of a tensor while it lives.
fn identity(tensor: &Tensor) -> usize {
    std::ptr::from_ref(&**tensor.impl_()).addr()
}

type Pairs = Vec<(String, Tensor, Tensor)>;

/// Each tensor of `module` that `state` names, with the one to copy from, all of which fit.
fn matched<M: Module + ?Sized>(module: &M, state: &StateDict) -> Result<(Pairs, KeyDifference)> {
    let (mut pairs, mut missing, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    each_tensor(module, &mut |name, _, tensor| {
        names.insert(name.to_string());
        match state.get(name) {
            Some(from) => pairs.push((name.to_string(), tensor.clone(), from.clone())),
            None => missing.push(name.to_string()),
        }
    });
    for (name, to, from) in &pairs {
        check_fits(name, to, from)?;
    }
    let unexpected = state.keys().filter(|key| !names.contains(*key)).cloned().collect();
    Ok((pairs, KeyDifference { missing, unexpected }))
}

fn check_fits(name: &str, to: &Tensor, from: &Tensor) -> Result<()> {
    if to.sizes() != from.sizes() {
        bail!(
            Shape,
            "load_state_dict: expected sizes {:?} for `{name}` but got {:?}",
            to.sizes(),
            from.sizes()
        );
    }
    if to.dtype() != from.dtype() {
        bail!(Dtype, "load_state_dict: expected {} for `{name}` but got {}", to.dtype(), from.dtype());
    }
    Ok(())
}

fn copy_all(pairs: &Pairs) -> Result<()> {
    let _guard = no_grad();
    for (name, to, from) in pairs {
        ops::copy_(to, from, false).map_err(|e| e.context(format!("load_state_dict: `{name}`")))?;
    }
    Ok(())
}

/// A copy that is a leaf and requires a gradient if `tensor` does.
fn converted(tensor: &Tensor, options: TensorOptions) -> Result<Tensor> {
    let _guard = no_grad();
    let copy = Tensor::empty(tensor.sizes(), options)?;
    ops::copy_(&copy, tensor, false)?;
    copy.requires_grad_(tensor.requires_grad())?;
    Ok(copy)
}
