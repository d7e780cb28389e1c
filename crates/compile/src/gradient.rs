//! The gradient of a compiled function: the backward pass of the function is captured and compiled as the function itself is. It computes
//! elementwise values again instead of saving them, and saves the results of other operators that it reads.

use crate::capture::capture;
use crate::graph::{Graph, Node, ValueId, ValueInfo};
use crate::plan::Plan;
use crate::planned::{FunctionOf, Planned};
use flambeau_autograd::function::{BackwardContext, ForwardContext, Function};
use flambeau_autograd::{Autograd, defined::below_autograd, enable_grad, grad};
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::Tensor;
use std::sync::Arc;

/// A compiled backward pass.
pub(crate) struct Backward {
    pub(crate) plan: Plan,
    /// The values of the function's own graph that it reads, after the arguments and the gradients.
    pub(crate) saved: Vec<ValueId>,
}

/// What is known of the function whose gradient is captured.
pub(crate) struct Differentiated<'p> {
    pub(crate) function: &'p FunctionOf,
    pub(crate) graph: &'p Graph,
    pub(crate) inputs: &'p [ValueInfo],
    /// Which inputs require a gradient, and which outputs have one.
    pub(crate) requires_grad: &'p [bool],
    pub(crate) has_grad: &'p [bool],
    /// Tensors that the function knows and that require a gradient.
    pub(crate) captured: &'p [Tensor],
}

impl Differentiated<'_> {
    /// The backward pass for gradients of these geometries, one for each output that has one.
    ///
    /// # Errors
    /// As [`capture`].
    pub(crate) fn backward(&self, grads: &[Option<ValueInfo>]) -> Result<Backward> {
        let count = self.inputs.len();
        let given: Vec<ValueInfo> = self.inputs.iter().chain(grads.iter().flatten()).cloned().collect();
        let mut flags = self.requires_grad.to_vec();
        flags.resize(given.len(), false);
        let graph = capture(&given, &flags, |fakes| {
            let (inputs, mut seeds) = (&fakes[..count], fakes[count..].iter());
            let seeds = grads.iter().map(|grad| grad.as_ref().and_then(|_| seeds.next().cloned())).collect();
            self.gradients(inputs, seeds, false)
        })?;
        let shift = given.len() - count;
        self.with_saved(graph, shift)
    }

    /// The gradients of the inputs and captured tensors that require one.
    pub(crate) fn gradients(
        &self,
        inputs: &[Tensor],
        grads: Vec<Option<Tensor>>,
        create_graph: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let _recording = enable_grad();
        let outputs = (self.function)(inputs)?;
        let with_grad =
            outputs.into_iter().zip(self.has_grad).filter(|(_, has)| **has).map(|(output, _)| output);
        let pairs = with_grad.zip(grads).filter(|(_, grad)| grad.is_some());
        let (outputs, grads): (Vec<Tensor>, Vec<Option<Tensor>>) = pairs.unzip();
        let needed = inputs.iter().zip(self.requires_grad).filter(|(_, requires)| **requires);
        let requested: Vec<Tensor> = needed.map(|(input, _)| input).chain(self.captured).cloned().collect();
        if outputs.is_empty() {
            return Ok(vec![None; requested.len()]);
        }
        grad(&outputs, &requested, &grads, None, create_graph, true)
    }

    /// The graph of the backward pass begins with that of the function. Of its operators that are no views the results are inputs.
    fn with_saved(&self, mut graph: Graph, shift: usize) -> Result<Backward> {
        let count = self.inputs.len();
        let own = |id: ValueId| if id < count { id } else { id + shift };
        let is_same = |(a, b): (&Node, &Node)| {
            let made = (a.makes(), b.makes());
            let alike = |(x, y): (&ValueId, &ValueId)| {
                own(*x) == *y && self.graph.values[*x].is_like(&graph.values[*y])
            };
            a.name() == b.name() && made.0.len() == made.1.len() && made.0.iter().zip(&made.1).all(alike)
        };
        let first = self.graph.nodes.len();
        ensure!(
            graph.nodes.len() >= first && self.graph.nodes.iter().zip(&graph.nodes).all(is_same),
            NotImplemented,
            "it did something else when it ran a second time"
        );
        let is_saved = |graph: &Graph, node: &Node| match node {
            Node::Call(_) => node.makes().iter().all(|made| graph.values[*made].view_of.is_none()),
            Node::Loop(_) => false,
        };
        let later = graph.nodes.split_off(first);
        let (calls, mut rest): (Vec<Node>, Vec<Node>) =
            std::mem::take(&mut graph.nodes).into_iter().partition(|node| is_saved(&graph, node));
        rest.extend(later);
        graph.nodes = rest;
        let candidates: Vec<ValueId> = calls.iter().flat_map(Node::makes).collect();
        let read = read_by_outputs(&graph);
        let saved: Vec<ValueId> = candidates.into_iter().filter(|id| read[*id]).collect();
        graph.inputs.extend(&saved);
        let saved = saved.into_iter().map(|id| if id < count { id } else { id - shift }).collect();
        Ok(Backward { plan: Plan::new(graph)?, saved })
    }
}

/// Which values the outputs depend on.
fn read_by_outputs(graph: &Graph) -> Vec<bool> {
    let mut read = vec![false; graph.values.len()];
    graph.outputs.iter().flatten().for_each(|output| read[*output] = true);
    for node in graph.nodes.iter().rev() {
        if node.makes().iter().any(|made| read[*made]) {
            node.reads().iter().for_each(|id| read[*id] = true);
        }
    }
    read
}

/// A call of a compiled function that is recorded.
pub(crate) struct Recorded {
    pub(crate) planned: Arc<Planned>,
    pub(crate) function: Arc<FunctionOf>,
    /// How many of the inputs are arguments; captured tensors follow.
    pub(crate) arguments: usize,
}

impl Function for Recorded {
    const NAME: &'static str = "Compiled";

    fn forward(&self, cx: &mut ForwardContext<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let _below = below_autograd();
        let (planned, arguments) = (&self.planned, &inputs[..self.arguments]);
        let keep = planned.gradient.as_ref().map_or(&[][..], |gradient| gradient.keep.as_slice());
        let (outputs, kept) = planned.plan.run(arguments, keep)?;
        let outputs: Vec<Tensor> = outputs.into_iter().flatten().collect();
        let captured = planned.plan.graph.captured.iter().map(|(_, tensor)| tensor);
        let saved: Vec<&Tensor> = arguments.iter().chain(captured).chain(&kept).collect();
        cx.save_for_backward(&saved);
        let without =
            outputs.iter().zip(&planned.has_grad).filter(|(_, has)| !**has).map(|(output, _)| output);
        cx.mark_non_differentiable(&without.collect::<Vec<_>>());
        cx.set_materialize_grads(false);
        Ok(outputs)
    }

    fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let planned = &self.planned;
        let saved = cx.saved_tensors()?;
        let (arguments, rest) = saved.split_at(self.arguments);
        let kept = &rest[planned.plan.graph.captured.len()..];
        let pairs = grads.iter().zip(&planned.has_grad).filter(|(_, has)| **has);
        let grads: Vec<Option<Tensor>> = pairs.map(|(grad, _)| grad.clone()).collect();
        let compiled = match cx.create_graph() {
            true => None,
            false => planned.backward(&*self.function, &grads, kept)?,
        };
        let made = match compiled {
            Some((backward, kept)) => {
                let _below = below_autograd();
                let given: Vec<Tensor> =
                    arguments.iter().chain(grads.iter().flatten()).chain(&kept).cloned().collect();
                backward.plan.run(&given, &[])?.0
            }
            None => self.as_written(arguments, grads, cx.create_graph())?,
        };
        let mut made = made.into_iter();
        let mut of_inputs: Vec<Option<Tensor>> = Vec::new();
        for requires in &planned.requires_grad {
            of_inputs.push(if *requires { made.next().flatten() } else { None });
        }
        of_inputs.extend(made);
        Ok(of_inputs)
    }
}

impl Recorded {
    /// The gradients by autograd: of a pass that is itself recorded, or where the backward pass cannot be compiled.
    fn as_written(
        &self,
        arguments: &[Tensor],
        grads: Vec<Option<Tensor>>,
        create_graph: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        if self.planned.plan.graph.is_random() {
            bail!(
                NotImplemented("compile"),
                "a compiled function that draws random numbers has no second derivative, since it would draw others"
            );
        }
        debug_assert!(
            arguments.iter().zip(&self.planned.requires_grad).all(|(x, r)| !*r || x.requires_grad())
        );
        self.planned.differentiated(&*self.function).gradients(arguments, grads, create_graph)
    }
}
