//! A function with a plan: what is kept for the next call with tensors of the same types.

use crate::capture::capture;
use crate::gradient::{Backward, Differentiated, Recorded};
use crate::graph::{ValueId, ValueInfo};
use crate::plan::Plan;
use flambeau_autograd::{Autograd, apply, defined::below_autograd, is_grad_enabled};
use flambeau_core::{Layout, Result, ensure};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use std::sync::Arc;

/// A function of tensors.
pub type FunctionOf = dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync;

/// A backward pass by the geometries of the gradients that arrive; `None` where it could not be compiled.
type Backwards = Vec<(Vec<Option<ValueInfo>>, Option<Arc<Backward>>)>;

/// The gradient of a planned function.
pub(crate) struct Gradient {
    /// The values of the function's graph that its backward pass reads.
    pub(crate) keep: Vec<ValueId>,
    backwards: Mutex<Backwards>,
}

impl Gradient {
    /// The backward pass that was compiled first.
    pub(crate) fn first(&self) -> Option<Arc<Backward>> {
        self.backwards.lock().iter().find_map(|(_, backward)| backward.clone())
    }
}

/// So many geometries of gradients are compiled for; others run as written.
const MAX_BACKWARDS: usize = 16;

/// A function with a plan.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    inputs: Vec<ValueInfo>,
    /// Which arguments require a gradient.
    pub(crate) requires_grad: Vec<bool>,
    /// Which results have one.
    pub(crate) has_grad: Vec<bool>,
    /// Tensors that the function knows and that require a gradient.
    captured: Vec<Tensor>,
    pub(crate) gradient: Option<Gradient>,
}

impl Planned {
    /// The plan of a function for such arguments.
    ///
    /// # Errors
    /// Why the function runs as written.
    pub(crate) fn new(function: &FunctionOf, arguments: &[Tensor]) -> Result<Self> {
        let inputs: Vec<ValueInfo> = arguments.iter().map(ValueInfo::of).collect();
        let is_recording = is_grad_enabled();
        let requires_grad: Vec<bool> = arguments.iter().map(|x| is_recording && x.requires_grad()).collect();
        let mut has_grad = Vec::new();
        let graph = capture(&inputs, &requires_grad, |fakes| {
            let outputs = function(fakes)?;
            has_grad = outputs.iter().map(|output| is_recording && output.requires_grad()).collect();
            Ok(outputs.into_iter().map(Some).collect())
        })?;
        let is_recorded = has_grad.contains(&true);
        let outputs: Vec<ValueId> = graph.outputs.iter().flatten().copied().collect();
        let is_foreign = |id: &ValueId| {
            let root = graph.root(*id);
            graph.inputs.contains(&root) || graph.captured.iter().any(|(known, _)| *known == root)
        };
        ensure!(
            !outputs.iter().any(is_foreign),
            NotImplemented,
            "it returns a tensor that it was given, or a view of one"
        );
        let repeated = (1..outputs.len()).any(|i| outputs[..i].contains(&outputs[i]));
        ensure!(
            !(is_recorded && repeated),
            NotImplemented,
            "it returns a tensor twice, of which a gradient is recorded"
        );
        let captured = graph.captured.iter().map(|(_, tensor)| tensor);
        let captured = captured.filter(|tensor| is_recorded && tensor.requires_grad()).cloned().collect();
        let plan = Plan::new(graph)?;
        let mut planned = Planned { plan, inputs, requires_grad, has_grad, captured, gradient: None };
        if is_recorded {
            planned.gradient = Some(planned.first_gradient(function)?);
        }
        Ok(planned)
    }

    /// The gradient, whose backward pass is compiled for gradients that lie in memory as the results do.
    fn first_gradient(&self, function: &FunctionOf) -> Result<Gradient> {
        let graph = &self.plan.graph;
        let outputs = graph.outputs.iter().flatten().zip(&self.has_grad).filter(|(_, has)| **has);
        let like = |id: ValueId| Some(ValueInfo { view_of: None, ..graph.values[id].clone() });
        let grads: Vec<Option<ValueInfo>> = outputs.map(|(id, _)| like(*id)).collect();
        let backward = self.differentiated(function).backward(&grads)?;
        let keep = backward.saved.clone();
        Ok(Gradient { keep, backwards: Mutex::new(vec![(grads, Some(Arc::new(backward)))]) })
    }

    pub(crate) fn differentiated<'p>(&'p self, function: &'p FunctionOf) -> Differentiated<'p> {
        Differentiated {
            function,
            graph: &self.plan.graph,
            inputs: &self.inputs,
            requires_grad: &self.requires_grad,
            has_grad: &self.has_grad,
            captured: &self.captured,
        }
    }

    /// The compiled backward pass for these gradients, and those of the kept values that it reads; `None` where there is none.
    ///
    /// # Errors
    /// None; what cannot be compiled runs as written.
    pub(crate) fn backward(
        &self,
        function: &FunctionOf,
        grads: &[Option<Tensor>],
        kept: &[Tensor],
    ) -> Result<Option<(Arc<Backward>, Vec<Tensor>)>> {
        let Some(gradient) = &self.gradient else { return Ok(None) };
        if grads.iter().flatten().any(|grad| obstacle_of(grad).is_some()) {
            return Ok(None);
        }
        let infos: Vec<Option<ValueInfo>> =
            grads.iter().map(|grad| grad.as_ref().map(ValueInfo::of)).collect();
        let find = |backwards: &Backwards| {
            backwards.iter().find(|(known, _)| *known == infos).map(|(_, backward)| backward.clone())
        };
        let known = find(&gradient.backwards.lock());
        let backward = match known {
            Some(backward) => backward,
            None if gradient.backwards.lock().len() >= MAX_BACKWARDS => None,
            None => {
                let made = self.differentiated(function).backward(&infos).ok().map(Arc::new);
                gradient.backwards.lock().push((infos, made.clone()));
                made
            }
        };
        let Some(backward) = backward else { return Ok(None) };
        let tensor = |id: &ValueId| gradient.keep.iter().position(|kept| kept == id).map(|i| kept[i].clone());
        let tensors: Option<Vec<Tensor>> = backward.saved.iter().map(tensor).collect();
        Ok(tensors.map(|tensors| (backward, tensors)))
    }

    /// Whether the tensors that the function knows are as they were.
    pub(crate) fn is_valid(&self) -> bool {
        let graph = &self.plan.graph;
        let is_same = |(id, tensor): &(ValueId, Tensor)| {
            let requires_grad = self.captured.iter().any(|known| known.is_same(tensor));
            graph.values[*id].describes(tensor)
                && (self.gradient.is_none() || tensor.requires_grad() == requires_grad)
        };
        graph.captured.iter().all(is_same)
    }

    /// Calls it.
    ///
    /// # Errors
    /// Those of its operators.
    pub(crate) fn call(
        self: &Arc<Self>,
        function: &Arc<FunctionOf>,
        arguments: &[Tensor],
    ) -> Result<Vec<Tensor>> {
        if self.gradient.is_none() {
            let _below = below_autograd();
            return Ok(self.plan.run(arguments, &[])?.0.into_iter().flatten().collect());
        }
        let recorded =
            Recorded { planned: self.clone(), function: function.clone(), arguments: arguments.len() };
        let inputs: Vec<&Tensor> = arguments.iter().chain(&self.captured).collect();
        apply(recorded, &inputs)
    }
}

/// Why a tensor cannot be an argument of a plan.
pub(crate) fn obstacle_of(tensor: &Tensor) -> Option<&'static str> {
    use flambeau_core::DispatchKey::{ADInplaceOrView, Autograd, Cpu};
    let others = [Cpu, ADInplaceOrView, Autograd]
        .iter()
        .fold(tensor.key_set(), |keys, key| keys.without((*key).into()));
    match () {
        () if tensor.layout() != Layout::Strided => Some("an argument is not a strided tensor"),
        () if !tensor.device().is_cpu() => Some("an argument is not on the CPU"),
        () if !others.is_empty() || !tensor.storage().is_host() => {
            Some("an argument has elements that only its class knows")
        }
        () if tensor.numel() == 0 => Some("an argument has no elements"),
        () => None,
    }
}
