//! A tensor that a node keeps for its backward: it remembers its version and history, and keeps no cycle alive.
//!
//! A node must not own a tensor that may come to own the node. An output owns it at once, an input may after an in-place
//! operator; so both are kept as aliases without history, and get it back when they are unpacked for a pass that is
//! itself recorded.

use super::history::{gradient_edge, output_edge, set_gradient_edge};
use super::meta::variable;
use super::tangents;
use crate::grad_mode::no_grad;
use crate::graph::dual_level::Slot;
use crate::graph::hooks::{Packed, SavingHooks, UnpackHook, saving_hooks, saving_is_watched};
use crate::graph::node::{Context, Edge, Owned};
use crate::graph::release::release;
use crate::handle;
use flambeau_core::{Device, DispatchKey, Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;
use std::ops::Deref;
use std::sync::Arc;

/// A tensor saved by a node. Two words wide in the common case, so that it goes to its node in registers.
pub struct SavedVariable(Kept);

enum Kept {
    /// The tensor, or an alias of it.
    Plain {
        tensor: Tensor,
        version: u32,
        history: History,
    },
    Other(Box<Other>),
}

/// What was packed by a hook, or has a history that its node does not know.
struct Other {
    data: Data,
    version: u32,
    history: History,
    edge: Option<Edge>,
    /// The tangent of a packed tensor: what is unpacked is another one.
    tangent: Option<Arc<Slot>>,
}

enum Data {
    Tensor(Tensor),
    Packed { data: Packed, unpack: Arc<UnpackHook> },
}

/// Which history a saved tensor gets back, in one number: none, an edge of its node, or the node itself.
#[derive(Clone, Copy, PartialEq)]
struct History(u32);

impl History {
    /// None, or the tensor kept has it itself.
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

impl Drop for Other {
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
            (None, kept) => SavedVariable(kept),
            (Some(edge), Kept::Plain { tensor: kept, version, history }) if !kept.is_same(tensor) => {
                let (data, edge) = (Data::Tensor(kept), Some(edge));
                SavedVariable(Kept::Other(Box::new(Other { data, version, history, edge, tangent: None })))
            }
            (_, kept @ Kept::Plain { .. }) => SavedVariable(kept),
            (edge, Kept::Other(mut other)) => {
                other.edge = edge;
                SavedVariable(Kept::Other(other))
            }
        })
    }

    /// A tensor that nobody else has, and so nobody can write or give another history.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn private(tensor: Tensor) -> Result<Self> {
        if saving_is_watched() {
            return Self::other(&tensor);
        }
        let version = tensor.version();
        Ok(SavedVariable(Kept::Plain { tensor, version, history: History::NONE }))
    }

    #[inline]
    fn save(tensor: &Tensor, history: History) -> Result<Self> {
        check_savable(tensor)?;
        if saving_is_watched() {
            return Self::save_watched(tensor, history);
        }
        Self::keep(tensor, history)
    }

    #[inline]
    fn keep(tensor: &Tensor, history: History) -> Result<Self> {
        let version = tensor.version();
        let is_leaf = variable(tensor).is_some_and(|v| v.is_asked() && !v.has_history());
        let kept = if is_leaf || tensor.is_wrapped_number() {
            Kept::Plain { tensor: tensor.clone(), version, history: History::NONE }
        } else {
            Kept::Plain { tensor: handle::alias(tensor)?, version, history }
        };
        Ok(SavedVariable(kept))
    }

    /// With hooks in force, or a dual level open: the tangent goes along, also one that an output is yet to be given.
    #[cold]
    fn save_watched(tensor: &Tensor, history: History) -> Result<Self> {
        let tangent = tangents::shared_slot(tensor, history.is_output())?;
        if let Some(hooks) = saving_hooks() {
            return Self::pack(tensor, hooks, history, tangent);
        }
        let saved = Self::keep(tensor, history)?;
        if let (Some(tangent), Kept::Plain { tensor: kept, .. }) = (tangent, &saved.0)
            && !kept.is_same(tensor)
        {
            tangents::attach(kept, tangent);
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
        let tensor = handle::alias(tensor)?;
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
        Ok(SavedVariable(Kept::Other(Box::new(Other { data, version, history, edge: None, tangent }))))
    }

    /// The tensor, with its history if the backward pass is itself recorded.
    ///
    /// # Errors
    /// `Autograd` if it was written since it was saved, and what an unpack hook returns.
    #[inline]
    pub fn unpack(&self, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        match &self.0 {
            Kept::Plain { tensor, version, .. } if tensor.version() == *version && !cx.create_graph() => {
                Ok(Unpacked::Lent(tensor))
            }
            _ => self.unpack_slowly(cx),
        }
    }

    fn unpack_slowly(&self, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        let (tensor, version) = match &self.0 {
            Kept::Plain { tensor, version, .. } => (tensor.clone(), *version),
            Kept::Other(other) => match &other.data {
                Data::Tensor(tensor) => (tensor.clone(), other.version),
                Data::Packed { data, unpack } => {
                    let tensor = unpack(&**data)?;
                    let tensor = match &other.tangent {
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

    /// Shows what it owns.
    pub fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        match &self.0 {
            Kept::Plain { tensor, .. } => visit(Owned::Tensor(tensor)),
            Kept::Other(other) => {
                match &other.data {
                    Data::Tensor(tensor) => visit(Owned::Tensor(tensor)),
                    Data::Packed { data, .. } => visit(Owned::Object(&**data)),
                }
                other.edge.iter().for_each(|edge| visit(Owned::Node(&edge.node)));
            }
        }
    }

    fn edge(&self, cx: &Context<'_>, tensor: &Tensor) -> Option<Edge> {
        match &self.0 {
            Kept::Plain { history, .. } => history.edge(cx, tensor),
            Kept::Other(other) => other.edge.clone().or_else(|| other.history.edge(cx, tensor)),
        }
    }

    /// Another handle with the history that was noted. Never the one kept: that would close a cycle.
    fn with_history(&self, tensor: Tensor, cx: &Context<'_>) -> Result<Unpacked<'_>> {
        if !cx.create_graph() {
            return Ok(Unpacked::Made(tensor));
        }
        let Some(edge) = self.edge(cx, &tensor) else { return Ok(Unpacked::Made(tensor)) };
        let handle = match tangents::slot(&tensor) {
            Some(tangent) => tangents::alias_with(&tensor, tangent)?,
            None => handle::alias(&tensor)?,
        };
        set_gradient_edge(&handle, edge.node, edge.input_nr);
        Ok(Unpacked::Made(handle))
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

/// A saved tensor as a formula meets it: the one that is kept, unless the formula needs one of its own.
pub enum Unpacked<'a> {
    /// The tensor itself, without history.
    Lent(&'a Tensor),
    /// One with history, or out of a hook.
    Made(Tensor),
}

impl Unpacked<'_> {
    /// A handle to keep.
    pub fn into_tensor(self) -> Tensor {
        match self {
            Unpacked::Lent(tensor) => tensor.clone(),
            Unpacked::Made(tensor) => tensor,
        }
    }
}

impl Deref for Unpacked<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            Unpacked::Lent(tensor) => tensor,
            Unpacked::Made(tensor) => tensor,
        }
    }
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
    let place = if device.is_cpu() { String::new() } else { format!("{}.", device.device_type().name()) };
    format!("torch.{place}{kind}Tensor")
}
