//! A tensor that a node keeps for its backward: it remembers its version and history, and keeps no cycle alive.
//!
//! A node must not own a tensor that may come to own the node. An output owns it at once, an input may after an in-place
//! operator; so both are kept as aliases without history, and get it back when they are unpacked for a pass that is
//! itself recorded.

use crate::engine::Context;
use crate::handle;
use crate::hooks::{Packed, SavingHooks, UnpackHook, saving_hooks};
use crate::node::{Edge, release};
use crate::variable::{set_gradient_edge, variable};
use crate::{no_grad, view};
use flambeau_core::{Device, DispatchKey, Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;
use std::sync::Arc;

/// A tensor saved by a node; clones share it.
#[derive(Clone)]
pub struct SavedVariable {
    data: Data,
    version: u32,
    /// Of an input: where its gradient goes. Empty if it needs none, or if `data` itself knows.
    edge: Option<Edge>,
    /// Of an output of the node that saves it: which.
    output_nr: Option<u32>,
}

#[derive(Clone)]
enum Data {
    Tensor(Tensor),
    Packed(Arc<PackedTensor>),
}

struct PackedTensor {
    data: Packed,
    unpack: Arc<UnpackHook>,
}

impl Drop for SavedVariable {
    #[inline]
    fn drop(&mut self) {
        if let Some(edge) = self.edge.take() {
            release(edge.node);
        }
    }
}

impl SavedVariable {
    /// An input, with the edge along which its gradient goes.
    ///
    /// # Errors
    /// `Autograd` for inference tensors, and what a pack hook returns.
    #[inline]
    pub fn input(tensor: &Tensor, edge: &Option<Edge>) -> Result<Self> {
        check_savable(tensor)?;
        if let Some(hooks) = saving_hooks() {
            return Self::pack(tensor, hooks, edge.clone(), None);
        }
        let version = tensor.version();
        let is_leaf = variable(tensor).is_some_and(|v| v.is_asked() && !v.has_history());
        if is_leaf || tensor.is_wrapped_number() {
            return Ok(SavedVariable {
                data: Data::Tensor(tensor.clone()),
                version,
                edge: None,
                output_nr: None,
            });
        }
        let data = Data::Tensor(handle::alias(tensor)?);
        Ok(SavedVariable { data, version, edge: edge.clone(), output_nr: None })
    }

    /// Output `output_nr` of the operator whose node will own this.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    #[inline]
    pub fn output(tensor: &Tensor, output_nr: u32) -> Result<Self> {
        check_savable(tensor)?;
        if let Some(hooks) = saving_hooks() {
            return Self::pack(tensor, hooks, None, Some(output_nr));
        }
        let data = Data::Tensor(handle::alias(tensor)?);
        Ok(SavedVariable { data, version: tensor.version(), edge: None, output_nr: Some(output_nr) })
    }

    #[cold]
    fn pack(tensor: &Tensor, hooks: SavingHooks, edge: Option<Edge>, output_nr: Option<u32>) -> Result<Self> {
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
        let data = Data::Packed(Arc::new(PackedTensor { data, unpack: hooks.unpack }));
        Ok(SavedVariable { data, version, edge, output_nr })
    }

    /// The tensor, with its history if the backward pass is itself recorded.
    ///
    /// # Errors
    /// `Autograd` if it was written since it was saved, and what an unpack hook returns.
    #[inline]
    pub fn unpack(&self, cx: &Context<'_>) -> Result<Tensor> {
        let tensor = match &self.data {
            Data::Tensor(tensor) => {
                if tensor.version() != self.version {
                    return self.modified(cx, tensor);
                }
                tensor.clone()
            }
            Data::Packed(packed) => (packed.unpack)(&*packed.data)?,
        };
        if cx.create_graph() { self.with_history(tensor, cx) } else { Ok(tensor) }
    }

    /// Another handle with the history that was noted. Never the one kept: that would close a cycle.
    fn with_history(&self, tensor: Tensor, cx: &Context<'_>) -> Result<Tensor> {
        let edge = match (&self.edge, self.output_nr) {
            (Some(edge), _) => edge.clone(),
            (None, Some(output_nr)) => view::output_edge(cx, &tensor, output_nr),
            (None, None) => return Ok(tensor),
        };
        let handle = handle::alias(&tensor)?;
        set_gradient_edge(&handle, edge.node, edge.input_nr);
        Ok(handle)
    }

    #[cold]
    fn modified(&self, cx: &Context<'_>, tensor: &Tensor) -> Result<Tensor> {
        let which = match (&self.edge, self.output_nr) {
            (Some(edge), _) => format!(", which is output {} of {},", edge.input_nr, edge.node.name()),
            (None, Some(output_nr)) => format!(", which is output {output_nr} of {},", cx.name()),
            (None, None) => String::new(),
        };
        bail!(
            Autograd,
            "{}: one of the variables needed for gradient computation has been modified by an inplace operation: [{} \
             {:?}]{which} is at version {}; expected version {} instead. Hint: enable anomaly detection to find the \
             operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
            cx.name(),
            type_name(tensor.dtype(), tensor.device()),
            tensor.sizes(),
            tensor.version(),
            self.version
        )
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
