//! Saved variables: tensors that a node keeps for the backward pass, with their version and history, without reference cycles.
//!
//! A node must not own a tensor that owns the node. An output owns it from the start, and an input may own it after an in-place
//! operator. So the node keeps aliases of both without history, which is restored when they are unpacked in a pass that is itself
//! recorded.

use super::history::{gradient_edge, output_edge, set_gradient_edge};
use super::meta::variable;
use super::tangents;
use crate::alias;
use crate::grad_mode::no_grad;
use crate::graph::dual_level::Slot;
use crate::graph::hooks::{Packed, SavingHooks, UnpackHook, saving_hooks, saving_is_watched};
use crate::graph::node::{Context, Edge, Owned};
use crate::graph::release::release;
use flambeau_core::{Device, DispatchKey, DispatchKeySet, Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;
use std::ops::Deref;
use std::sync::Arc;

/// A tensor saved by a node. It has two words, so that it is passed to the node in registers.
pub struct SavedVariable(Repr);

enum Repr {
    /// The tensor, or an alias of it.
    Plain {
        tensor: Tensor,
        version: u32,
        history: History,
    },
    Boxed(Box<Boxed>),
}

/// A tensor that was packed by a hook, or has a history that is neither that of an input nor that of an output of the node.
struct Boxed {
    data: Data,
    version: u32,
    history: History,
    edge: Option<Edge>,
    /// The tangent of a packed tensor: the tensor that is unpacked is another one, without tangent.
    tangent: Option<Arc<Slot>>,
}

enum Data {
    Tensor(Tensor),
    Packed { data: Packed, unpack: Arc<UnpackHook> },
}

/// Which history a saved tensor has, encoded in one number: none, an edge of its node, or an output of the node itself.
#[derive(Clone, Copy, PartialEq)]
struct History(u32);

impl History {
    /// No history, or the tensor was saved with its history.
    const NONE: History = History(0);

    fn of_input(nr: u32) -> Self {
        History(2 * nr + 1)
    }

    fn of_output(nr: u32) -> Self {
        History(2 * nr + 2)
    }

    fn is_output(self) -> bool {
        self.0 != 0 && self.0.is_multiple_of(2)
    }

    /// The edge to it, as seen from the node that `cx` runs.
    fn edge(self, cx: &Context<'_>, tensor: &Tensor) -> Option<Edge> {
        match self.0 {
            0 => None,
            n if n % 2 == 1 => cx.node().header().edges().get(n as usize / 2)?.clone(),
            n => Some(output_edge(cx, tensor, n / 2 - 1)),
        }
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        if let Some(edge) = self.edge.take() {
            release(edge.node);
        }
    }
}

impl SavedVariable {
    /// Input number `nr` among those that have edges.
    ///
    /// # Errors
    /// `Autograd` for inference tensors, and what a pack hook returns.
    #[inline]
    pub fn input(tensor: &Tensor, nr: u32) -> Result<Self> {
        Self::save(tensor, History::of_input(nr))
    }

    /// Output `output_nr` of the operator whose node will own this.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    #[inline]
    pub fn output(tensor: &Tensor, output_nr: u32) -> Result<Self> {
        Self::save(tensor, History::of_output(output_nr))
    }

    /// A tensor that is neither, or an input of a list.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn other(tensor: &Tensor) -> Result<Self> {
        let saved = Self::save(tensor, History::NONE)?;
        Ok(match (gradient_edge(tensor)?, saved.0) {
            (None, repr) => SavedVariable(repr),
            (Some(edge), Repr::Plain { tensor: alias, version, history }) if !alias.is_same(tensor) => {
                let (data, edge) = (Data::Tensor(alias), Some(edge));
                SavedVariable(Repr::Boxed(Box::new(Boxed { data, version, history, edge, tangent: None })))
            }
            (_, repr @ Repr::Plain { .. }) => SavedVariable(repr),
            (edge, Repr::Boxed(mut boxed)) => {
                boxed.edge = edge;
                SavedVariable(Repr::Boxed(boxed))
            }
        })
    }

    /// A tensor that nobody else owns, so that nobody can write it or change its history: it needs no alias.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn private(tensor: Tensor) -> Result<Self> {
        if saving_is_watched() {
            return Self::other(&tensor);
        }
        let version = tensor.version();
        Ok(SavedVariable(Repr::Plain { tensor, version, history: History::NONE }))
    }

    #[inline]
    fn save(tensor: &Tensor, history: History) -> Result<Self> {
        if !is_usual(tensor) {
            return Self::save_unusual(tensor, history);
        }
        if saving_is_watched() {
            return Self::save_watched(tensor, history);
        }
        Ok(Self::keep(tensor, history))
    }

    #[inline]
    fn keep(tensor: &Tensor, history: History) -> Self {
        let version = tensor.version();
        let is_leaf = variable(tensor).is_some_and(|v| v.requires_grad_flag() && !v.has_history());
        let repr = if is_leaf || tensor.is_wrapped_number() {
            Repr::Plain { tensor: tensor.clone(), version, history: History::NONE }
        } else {
            Repr::Plain { tensor: alias::of_elements(tensor), version, history }
        };
        SavedVariable(repr)
    }

    /// Saves a wrapper, or refuses an inference tensor. An input is saved itself, as in PyTorch: an alias would be a call of its class.
    #[cold]
    fn save_unusual(tensor: &Tensor, history: History) -> Result<Self> {
        check_savable(tensor)?;
        if saving_is_watched() {
            Self::save_watched(tensor, history)
        } else {
            Self::keep_wrapper(tensor, history)
        }
    }

    fn keep_wrapper(tensor: &Tensor, history: History) -> Result<Self> {
        let (kept, history) = match history.is_output() {
            true => (alias::alias(tensor)?, history),
            false => (tensor.clone(), History::NONE),
        };
        let version = kept.version();
        Ok(SavedVariable(Repr::Plain { tensor: kept, version, history }))
    }

    /// Saves while hooks are registered or a dual level is open. The tangent is saved too, also that of an output, which is
    /// computed later.
    #[cold]
    fn save_watched(tensor: &Tensor, history: History) -> Result<Self> {
        let tangent = tangents::shared_slot(tensor, history.is_output())?;
        if let Some(hooks) = saving_hooks() {
            return Self::pack(tensor, hooks, history, tangent);
        }
        let saved = match is_usual(tensor) {
            true => Self::keep(tensor, history),
            false => Self::keep_wrapper(tensor, history)?,
        };
        if let (Some(tangent), Repr::Plain { tensor: alias, .. }) = (tangent, &saved.0)
            && !alias.is_same(tensor)
        {
            tangents::attach(alias, tangent);
        }
        Ok(saved)
    }

    #[cold]
    fn pack(
        tensor: &Tensor,
        hooks: SavingHooks,
        history: History,
        tangent: Option<Arc<Slot>>,
    ) -> Result<Self> {
        let _unrecorded = no_grad();
        let tensor = alias::alias(tensor)?;
        let version = tensor.version();
        let data = (hooks.pack)(&tensor)?;
        ensure!(
            tensor.version() == version,
            Autograd,
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be \
             modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you \
             need to perform in-place operations on the input to a pack hook."
        );
        let data = Data::Packed { data, unpack: hooks.unpack };
        Ok(SavedVariable(Repr::Boxed(Box::new(Boxed { data, version, history, edge: None, tangent }))))
    }

    /// The tensor, with its history if the backward pass is itself recorded.
    ///
    /// # Errors
    /// `Autograd` if it was written since it was saved, and what an unpack hook returns.
    #[inline]
    pub fn unpack(&self, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        match &self.0 {
            Repr::Plain { tensor, version, .. } if tensor.version() == *version && !cx.create_graph() => {
                Ok(Unpacked::Borrowed(tensor))
            }
            _ => self.unpack_slowly(cx),
        }
    }

    fn unpack_slowly(&self, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        let (tensor, version) = match &self.0 {
            Repr::Plain { tensor, version, .. } => (tensor.clone(), *version),
            Repr::Boxed(boxed) => match &boxed.data {
                Data::Tensor(tensor) => (tensor.clone(), boxed.version),
                Data::Packed { data, unpack } => {
                    let tensor = unpack(&**data)?;
                    let tensor = match &boxed.tangent {
                        Some(tangent) => tangents::alias_with(&tensor, tangent.clone())?,
                        None => tensor,
                    };
                    return self.with_history(tensor, cx);
                }
            },
        };
        if tensor.version() != version {
            return self.modified(cx, &tensor, version);
        }
        self.with_history(tensor, cx)
    }

    /// Visits what it owns.
    pub fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        match &self.0 {
            Repr::Plain { tensor, .. } => visit(Owned::Tensor(tensor)),
            Repr::Boxed(boxed) => {
                match &boxed.data {
                    Data::Tensor(tensor) => visit(Owned::Tensor(tensor)),
                    Data::Packed { data, .. } => visit(Owned::Object(&**data)),
                }
                boxed.edge.iter().for_each(|edge| visit(Owned::Node(&edge.node)));
            }
        }
    }

    fn edge(&self, cx: &Context<'_>, tensor: &Tensor) -> Option<Edge> {
        match &self.0 {
            Repr::Plain { history, .. } => history.edge(cx, tensor),
            Repr::Boxed(boxed) => boxed.edge.clone().or_else(|| boxed.history.edge(cx, tensor)),
        }
    }

    /// An alias with the saved history. The saved tensor itself never gets it: that would close a reference cycle.
    fn with_history(&self, tensor: Tensor, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        if !cx.create_graph() {
            return Ok(Unpacked::Owned(tensor));
        }
        let Some(edge) = self.edge(cx, &tensor) else { return Ok(Unpacked::Owned(tensor)) };
        let alias = match tangents::slot(&tensor) {
            Some(tangent) => tangents::alias_with(&tensor, tangent)?,
            None => alias::alias(&tensor)?,
        };
        set_gradient_edge(&alias, edge.node, edge.input_nr);
        Ok(Unpacked::Owned(alias))
    }

    #[cold]
    fn modified<T>(&self, cx: &Context<'_>, tensor: &Tensor, version: u32) -> Result<T> {
        let which = self.edge(cx, tensor).map_or_else(String::new, |edge| {
            format!(", which is output {} of {},", edge.input_nr, edge.node.name())
        });
        bail!(
            Autograd,
            "{}: one of the variables needed for gradient computation has been modified by an inplace operation: [{} \
             {:?}]{which} is at version {}; expected version {version} instead. Hint: enable anomaly detection to find the \
             operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
            cx.name(),
            type_name(tensor.dtype(), tensor.device()),
            tensor.sizes(),
            tensor.version()
        )
    }
}

/// A saved tensor that was unpacked for a formula.
pub enum Unpacked<'a> {
    /// The saved tensor itself, without history.
    Borrowed(&'a Tensor),
    /// Another tensor: with history, or returned by an unpack hook.
    Owned(Tensor),
}

impl Unpacked<'_> {
    /// The tensor, by value.
    pub fn into_tensor(self) -> Tensor {
        match self {
            Unpacked::Borrowed(tensor) => tensor.clone(),
            Unpacked::Owned(tensor) => tensor,
        }
    }
}

impl Deref for Unpacked<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            Unpacked::Borrowed(tensor) => tensor,
            Unpacked::Owned(tensor) => tensor,
        }
    }
}

/// Whether it is neither an inference tensor nor a wrapper: one comparison.
#[inline]
fn is_usual(tensor: &Tensor) -> bool {
    const VIEWS: DispatchKeySet = DispatchKeySet::of(DispatchKey::ADInplaceOrView);
    tensor.key_set().and(VIEWS.union(DispatchKeySet::of(DispatchKey::Python))) == VIEWS
}

#[inline]
fn check_savable(tensor: &Tensor) -> Result<()> {
    ensure!(
        tensor.key_set().has(DispatchKey::ADInplaceOrView),
        Autograd,
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in \
         computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in \
         autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
    );
    Ok(())
}

/// `torch.FloatTensor`.
fn type_name(dtype: ScalarType, device: Device) -> String {
    let kind = match dtype {
        ScalarType::Bool => "Bool",
        ScalarType::U8 => "Byte",
        ScalarType::I8 => "Char",
        ScalarType::I16 => "Short",
        ScalarType::I32 => "Int",
        ScalarType::I64 => "Long",
        ScalarType::F16 => "Half",
        ScalarType::BF16 => "BFloat16",
        ScalarType::F32 => "Float",
        ScalarType::F64 => "Double",
        other => other.name(),
    };
    let module = if device.is_cpu() { String::new() } else { format!("{}.", device.device_type().name()) };
    format!("torch.{module}{kind}Tensor")
}
