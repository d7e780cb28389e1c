//! Functions whose derivative the user writes.
#![expect(unsafe_code, reason = "promises that its node begins with the header")]

use crate::batched::below;
use crate::grad_mode::no_grad;
use crate::graph::gradients::Gradients;
use crate::graph::node::{Context, Edges, Node, NodeHeader, NodePtr, Owned, new_node};
use crate::graph::operator::{Backward, SECOND_TIME};
use crate::tensor::Autograd;
use crate::variable::history::set_gradient_edge;
use crate::variable::meta::{CreationMeta, requires_grad, variable};
use crate::variable::saved_variable::{SavedVariable, Unpacked};
use crate::variable::tangents::{self, is_dual};
use crate::variable::view;
use crate::{alias, factory, forward, record};
use flambeau_core::{Layout, Result, bail, ensure};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// A function with a derivative written by the user. The value holds the arguments that are not tensors: sizes, flags, constants.
///
/// ```
/// use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, apply};
/// use flambeau_autograd::Autograd;
/// use flambeau_core::Result;
/// use flambeau_ops::{Tensor, ops};
///
/// struct Exp;
/// impl Function for Exp {
///     const NAME: &'static str = "Exp";
///     fn forward(&self, cx: &mut ForwardContext<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
///         let result = ops::exp(&inputs[0])?;
///         cx.save_for_backward(&[&result]);
///         Ok(vec![result])
///     }
///     fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
///         let saved = cx.saved_tensors()?;
///         grads.iter().flatten().map(|grad| ops::mul_tensor(grad, &saved[0]).map(Some)).collect()
///     }
/// }
///
/// let x = Tensor::from_vec(vec![0.0f32], &[1])?;
/// x.requires_grad_(true)?;
/// apply(Exp, &[&x])?[0].backward()?;
/// assert!(x.grad().is_some());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub trait Function: Send + Sync + 'static {
    /// Its name in error messages.
    const NAME: &'static str;

    /// Whether [`backward`](Self::backward) is itself not differentiable: differentiating twice is then an error.
    const ONCE_DIFFERENTIABLE: bool = false;

    /// [`NAME`](Self::NAME), or one that is known only at run time.
    fn name(&self) -> &str {
        Self::NAME
    }

    /// [`ONCE_DIFFERENTIABLE`](Self::ONCE_DIFFERENTIABLE), or what is known only at run time.
    fn is_once_differentiable(&self) -> bool {
        Self::ONCE_DIFFERENTIABLE
    }

    /// Visits the objects of a front end that it owns, for the front end's garbage collector.
    fn held(&self, _visit: &mut dyn FnMut(&dyn Any)) {}

    /// The outputs; runs unrecorded.
    ///
    /// # Errors
    /// The implementation's.
    fn forward(&self, cx: &mut ForwardContext<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>>;

    /// The gradients of the inputs, one for each, from those of the outputs.
    ///
    /// # Errors
    /// The implementation's. A panic becomes an error too.
    fn backward(&self, cx: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;

    /// The tangents of the outputs, one for each, from those of the inputs: forward mode. Runs right after
    /// [`forward`](Self::forward), recorded.
    ///
    /// # Errors
    /// The implementation's; `NotImplemented` where there is none.
    fn jvp(&self, _cx: &JvpContext<'_>, _tangents: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        bail!(
            NotImplemented,
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )
    }
}

/// What a forward declares about its inputs and outputs, and what it saves.
pub struct ForwardContext<'a> {
    needs: &'a Edges,
    saved: Vec<Tensor>,
    dirty: Vec<Tensor>,
    non_differentiable: Vec<Tensor>,
    materialize: bool,
}

impl ForwardContext<'_> {
    /// Keeps inputs, outputs or other tensors for the backward. Once; a second call replaces the first.
    pub fn save_for_backward(&mut self, tensors: &[&Tensor]) {
        self.saved = tensors.iter().map(|tensor| (*tensor).clone()).collect();
    }

    /// These inputs were written in place; they must be among the outputs.
    pub fn mark_dirty(&mut self, inputs: &[&Tensor]) {
        self.dirty = inputs.iter().map(|tensor| (*tensor).clone()).collect();
    }

    /// These outputs get no history.
    pub fn mark_non_differentiable(&mut self, outputs: &[&Tensor]) {
        self.non_differentiable = outputs.iter().map(|tensor| (*tensor).clone()).collect();
    }

    /// Whether gradients of outputs that were not used are passed to the backward as zeros (the default) or as `None`.
    pub fn set_materialize_grads(&mut self, materialize: bool) {
        self.materialize = materialize;
    }

    /// Whether input `i` needs a gradient.
    pub fn needs_input_grad(&self, i: usize) -> bool {
        matches!(self.needs.get(i), Some(Some(_)))
    }
}

/// What a backward can use.
pub struct BackwardContext<'a> {
    cx: &'a Context<'a>,
    saved: &'a [SavedVariable],
}

impl BackwardContext<'_> {
    /// The saved tensors, in order, with their history, so that a backward that enables recording can differentiate through them.
    ///
    /// # Errors
    /// `Autograd` where one was written since.
    pub fn saved_tensors(&self) -> Result<Vec<Tensor>> {
        let cx = self.cx.with_history();
        self.saved.iter().map(|saved| saved.unpack(&cx).map(Unpacked::into_tensor)).collect()
    }

    /// Whether the gradient of input `i` is needed.
    pub fn needs_input_grad(&self, i: usize) -> bool {
        self.cx.needs(i)
    }

    /// Whether the pass is itself recorded.
    pub fn create_graph(&self) -> bool {
        self.cx.create_graph()
    }
}

/// What a jvp can use.
pub struct JvpContext<'a> {
    /// The inputs of the forward.
    pub inputs: &'a [Tensor],
    /// What it returned.
    pub outputs: &'a [Tensor],
}

/// Calls `function` on `inputs` and records it.
///
/// # Errors
/// Those of its forward, and `Autograd` where an input was written that may not be.
pub fn apply<F: Function>(function: F, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    // The history of a batched tensor is that of another one, and a backward of one example would not fit it.
    let needs_rule =
        |input: &&Tensor| below(input).is_some_and(|below| requires_grad(below) || is_dual(below));
    ensure!(
        !inputs.iter().any(needs_rule),
        Autograd,
        "You tried to vmap over {}, but it does not have vmap support. Please override and implement the vmap staticmethod or set \
         generate_vmap_rule=True.",
        function.name()
    );
    let sparse = inputs.iter().find(|input| input.layout() != Layout::Strided && input.requires_grad());
    refuse_layout(function.name(), "an input that requires a gradient", sparse.copied())?;
    let recording = record::any_requires_grad(inputs.iter().copied());
    // Below forward mode the caller sets the tangents of the outputs; inputs that are saved keep theirs.
    let dual = !tangents::is_below() && inputs.iter().any(|input| is_dual(input));
    let edges = if recording { record::edges_of_all(inputs)? } else { Edges::new() };
    let inputs: Vec<Tensor> = inputs.iter().map(|input| (*input).clone()).collect();
    let mut cx = ForwardContext {
        needs: &edges,
        saved: Vec::new(),
        dirty: Vec::new(),
        non_differentiable: Vec::new(),
        materialize: true,
    };
    let mut outputs = {
        let (_unrecorded, _below) = (no_grad(), dual.then(tangents::below));
        function.forward(&mut cx, &inputs)?
    };
    if !recording && !dual {
        return Ok(outputs);
    }
    let ForwardContext { saved, dirty, non_differentiable, materialize, .. } = cx;
    check_dirty(function.name(), &dirty, &outputs, recording)?;
    for output in &mut outputs {
        if is_among(output, &inputs) && !is_among(output, &dirty) {
            *output = view_as_is(output)?;
        }
    }
    let tangents = if dual { Some(tangents(&function, &inputs, &outputs, materialize)?) } else { None };
    if recording {
        let sparse = outputs.iter().chain(&saved).find(|tensor| tensor.layout() != Layout::Strided);
        refuse_layout(function.name(), "an output or a saved tensor", sparse)?;
        let saved = save(&saved, &outputs)?;
        let node = new_node(FunctionNode {
            header: NodeHeader::new(edges, &outputs.iter().collect::<Vec<_>>()),
            saves: !saved.is_empty(),
            saved: Mutex::new(Some(saved.into())),
            function,
            materialize,
        });
        attach(&node, &outputs, &dirty, &non_differentiable)?;
    }
    for (output, tangent) in outputs.iter().zip(tangents.into_iter().flatten()) {
        if output.dtype().is_differentiable() && !is_among(output, &non_differentiable) {
            forward::set(output, tangent, is_among(output, &dirty))?;
        }
    }
    Ok(outputs)
}

/// The history of a sparse tensor is that of its values, which a node does not see in the tensor.
fn refuse_layout(name: &str, what: &str, sparse: Option<&Tensor>) -> Result<()> {
    let Some(tensor) = sparse else { return Ok(()) };
    bail!(
        NotImplemented,
        "{name}: {what} has the layout {}, which custom functions do not take; pass its values",
        tensor.layout()
    )
}

/// The tangents of the outputs. Inputs without tangent are passed to the jvp as zeros, or, without `materialize`, as `None`.
fn tangents<F: Function>(
    function: &F,
    inputs: &[Tensor],
    outputs: &[Tensor],
    materialize: bool,
) -> Result<Vec<Option<Tensor>>> {
    let given = |input: &Tensor| match tangents::tangent(input)? {
        None if materialize && input.dtype().is_differentiable() => {
            factory::zeros(input.sizes(), input).map(Some)
        }
        tangent => Ok(tangent),
    };
    let given: Vec<Option<Tensor>> = inputs.iter().map(given).collect::<Result<_>>()?;
    let _below = tangents::below();
    let made = function.jvp(&JvpContext { inputs, outputs }, &given)?;
    ensure!(
        made.len() == outputs.len(),
        Autograd,
        "{}: the jvp returned {} tangents where the forward returned {} outputs",
        function.name(),
        made.len(),
        outputs.len()
    );
    for (i, (tangent, output)) in made.iter().zip(outputs).enumerate() {
        let fits = |tangent: &Tensor| tangent.sizes() == output.sizes() && tangent.dtype() == output.dtype();
        ensure!(
            tangent.as_ref().is_none_or(fits),
            Autograd,
            "{}: expected tangent {i} of the jvp to have the sizes and the type of output {i}, {:?} and {}",
            function.name(),
            output.sizes(),
            output.dtype()
        );
    }
    Ok(made)
}

fn is_among(tensor: &Tensor, others: &[Tensor]) -> bool {
    others.iter().any(|other| other.is_same(tensor))
}

fn check_dirty(name: &str, dirty: &[Tensor], outputs: &[Tensor], recording: bool) -> Result<()> {
    for input in dirty {
        if recording {
            record::check_inplace(input)?;
        }
        ensure!(
            is_among(input, outputs),
            Autograd,
            "{name}: Some elements marked as dirty during the forward method were not returned as output. The inputs that \
             are modified inplace must all be outputs of the Function."
        );
    }
    Ok(())
}

/// An alias for an input that is returned as it is, so that the input keeps its own history.
fn view_as_is(input: &Tensor) -> Result<Tensor> {
    let mut output = alias::alias(input)?;
    view::track(input, &mut output, false);
    Ok(output)
}

fn save(saved: &[Tensor], outputs: &[Tensor]) -> Result<Vec<SavedVariable>> {
    let save = |tensor: &Tensor| match outputs.iter().position(|output| output.is_same(tensor)) {
        Some(output_nr) => SavedVariable::output(tensor, output_nr as u32),
        None => SavedVariable::other(tensor),
    };
    saved.iter().map(save).collect()
}

/// Sets the history of the outputs.
fn attach(node: &NodePtr, outputs: &[Tensor], dirty: &[Tensor], non_differentiable: &[Tensor]) -> Result<()> {
    for (output_nr, output) in outputs.iter().enumerate() {
        if !output.dtype().is_differentiable() || is_among(output, non_differentiable) {
            continue;
        }
        if is_among(output, dirty) {
            ensure!(
                view::base(output).is_none() || outputs.len() == 1,
                Autograd,
                "If your Function modifies an input view in-place, it should have exactly one output."
            );
            record::rebase(output, node.clone(), output_nr as u32)?;
            continue;
        }
        set_gradient_edge(output, node.clone(), output_nr as u32);
        if let Some(view) = variable(output).and_then(|variable| variable.view.get()) {
            view.set_creation(CreationMeta::InCustomFunction);
        }
    }
    Ok(())
}

/// The node of a custom function.
#[repr(C)]
struct FunctionNode<F> {
    header: NodeHeader,
    saves: bool,
    saved: Mutex<Option<Arc<[SavedVariable]>>>,
    function: F,
    materialize: bool,
}

impl<F: Function> FunctionNode<F> {
    fn run(&self, cx: &Context<'_>, saved: &[SavedVariable], grads: &Gradients) -> Result<Gradients> {
        let cx = BackwardContext { cx, saved };
        let once = self.function.is_once_differentiable();
        let made = if once {
            let _unrecorded = no_grad();
            self.function.backward(&cx, grads)?
        } else {
            self.function.backward(&cx, grads)?
        };
        let expected = self.header.edges().len();
        ensure!(
            made.len() == expected,
            Autograd,
            "function {} returned an incorrect number of gradients (expected {expected}, got {})",
            self.function.name(),
            made.len()
        );
        let made = Gradients::from_vec(made);
        if once && cx.create_graph() { once_only(made, grads) } else { Ok(made) }
    }
}

// SAFETY: (header).
unsafe impl<F: Function> Node for FunctionNode<F> {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn owns(&self, visit: &mut dyn FnMut(Owned<'_>)) {
        self.function.held(&mut |object| visit(Owned::Object(object)));
        if let Some(saved) = self.saved.try_lock()
            && let Some(saved) = saved.as_ref().filter(|saved| Arc::strong_count(saved) == 1)
        {
            saved.iter().for_each(|saved| saved.owns(visit));
        }
    }

    fn apply(&self, cx: &Context<'_>, mut grads: Gradients) -> Result<Gradients> {
        if grads.iter().all(Option::is_none) {
            return Ok(Gradients::new());
        }
        if self.materialize {
            for (grad, info) in grads.iter_mut().zip(self.header.outputs()) {
                if grad.is_none() && info.dtype.is_differentiable() {
                    *grad = Some(info.zeros()?);
                }
            }
        }
        let Some(saved) = self.saved.lock().clone() else { bail!(Autograd, "{SECOND_TIME}") };
        let made = self.run(cx, &saved, &grads)?;
        if self.saves && !cx.keep_graph() {
            let freed = self.saved.lock().take();
            drop(freed);
        }
        Ok(made)
    }
}

/// Makes differentiating the gradients an error.
fn once_only(made: Gradients, grads: &Gradients) -> Result<Gradients> {
    let given: SmallVec<[&Tensor; 2]> = grads.iter().flatten().collect();
    let refuse = |grad: Tensor| {
        let mut grad = alias::alias(&grad)?;
        record::set_history(&mut grad, record::edges_of_all(&given)?, OnceDifferentiable);
        Ok(grad)
    };
    made.into_iter().map(|grad| grad.map(refuse).transpose()).collect()
}

struct OnceDifferentiable;

impl Backward for OnceDifferentiable {
    const NAME: &'static str = "OnceDifferentiable";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, _: &Gradients) -> Result<Gradients> {
        bail!(Autograd, "trying to differentiate twice a function that was marked with @once_differentiable")
    }
}
