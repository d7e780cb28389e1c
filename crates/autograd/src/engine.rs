//! Runs backward passes: each node runs when the gradients of all its outputs have arrived; of those that are ready the one that
//! was recorded last runs first. A pass runs on the calling thread.
//!
//! A pass does not change the graph, and has counters of its own. So passes may run at the same time in several threads, and inside
//! one another.

mod anomaly;
mod entries;
mod graph_task;
mod input_buffer;

use crate::batched::{Unwrapped, ensure_no_accumulation};
use crate::factory;
use crate::grad_mode::set_grad_enabled;
use crate::graph::gradients::{Gradients, OutputInfo, sum_to_size};
use crate::graph::node::{Context, Edge, NodeHeader, NodePtr, is_edge};
use crate::variable::accumulate_grad::keep_grads;
use crate::variable::history::gradient_edge;
use crate::variable::layout_parts;
use crate::variable::meta::requires_grad;
use flambeau_core::{Error, ErrorKind, Result, bail, ensure, profiler};
use flambeau_ops::Tensor;
use graph_task::GraphTask;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a pass is run.
#[derive(Clone, Copy)]
struct Mode {
    keep_graph: bool,
    create_graph: bool,
}

impl Mode {
    fn new(retain_graph: Option<bool>, create_graph: bool) -> Self {
        Mode { keep_graph: retain_graph.unwrap_or(create_graph), create_graph }
    }
}

/// Computes the gradients of `tensors` with respect to the leaves of their graph and adds them to the leaves' `grad`.
///
/// `grads` are the gradients of the tensors themselves; `None` (or an empty slice) stands for 1, and is valid for scalars only.
/// `retain_graph`, by default the same as `create_graph`, keeps what the graph saved for another pass. `create_graph` records the
/// pass, so that it can be differentiated. With `inputs`, only the gradients of these tensors are accumulated.
///
/// # Errors
/// `Autograd` where a tensor requires no gradient, a gradient has the wrong sizes, or saved values were freed or modified; and
/// those of operators and hooks.
///
/// ```
/// use flambeau_autograd::{Autograd, backward};
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from_vec(vec![3.0f32], &[1])?;
/// x.requires_grad_(true)?;
/// let y = ops::mul_tensor(&x, &x)?;
/// backward(&[y], &[], None, false, None)?;
/// assert_eq!(x.grad().map(|g| g.sizes().to_vec()), Some(vec![1]));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn backward(
    tensors: &[Tensor],
    grads: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    inputs: Option<&[Tensor]>,
) -> Result<()> {
    let mode = Mode::new(retain_graph, create_graph);
    ensure_no_accumulation(tensors)?;
    ensure!(
        inputs.is_none_or(|inputs| !inputs.is_empty()),
        InvalidArgument,
        "'inputs' argument to 'backward' cannot be empty."
    );
    let inputs = inputs.map(edges_of_inputs).transpose()?;
    let (roots, seeds) = roots(tensors, grads, create_graph)?;
    run(&roots, seeds, mode, inputs.as_deref().map(|inputs| (inputs, false)))?;
    Ok(())
}

/// The gradients of `outputs` with respect to `inputs`; nothing is accumulated.
///
/// `grad_outputs`, `retain_graph` and `create_graph` are as in [`backward`]. An input that the outputs do not depend on is
/// an error, or with `allow_unused` has the gradient `None`.
///
/// # Errors
/// As [`backward`].
pub fn grad(
    outputs: &[Tensor],
    inputs: &[Tensor],
    grad_outputs: &[Option<Tensor>],
    retain_graph: Option<bool>,
    create_graph: bool,
    allow_unused: bool,
) -> Result<Vec<Option<Tensor>>> {
    let mode = Mode::new(retain_graph, create_graph);
    ensure!(!inputs.is_empty(), InvalidArgument, "grad requires non-empty inputs.");
    if let Some(all) = Unwrapped::of(outputs, grad_outputs, inputs)? {
        let grads = grad(&all.outputs, &all.inputs, &all.grads, retain_graph, create_graph, allow_unused)?;
        return all.wrapped(grads);
    }
    let edges = edges_of_inputs(inputs)?;
    let (roots, seeds) = roots(outputs, grad_outputs, create_graph)?;
    let grads = run(&roots, seeds, mode, Some((&edges, true)))?;
    let unused = grads.iter().position(Option::is_none);
    if let (Some(index), false) = (unused, allow_unused) {
        bail!(
            Autograd,
            "The differentiated Tensor at index {index} appears to not have been used in the graph. Set \
             allow_unused=True if this is the desired behavior."
        );
    }
    let whole = |(input, grad): (&Tensor, Option<Tensor>)| {
        grad.map(|grad| layout_parts::whole(input, grad)).transpose()
    };
    inputs.iter().zip(grads).map(whole).collect()
}

fn edges_of_inputs(inputs: &[Tensor]) -> Result<Vec<Option<Edge>>> {
    let edge = |input: &Tensor| {
        let input = &layout_parts::receiver(input);
        ensure!(requires_grad(input), Autograd, "One of the differentiated Tensors does not require grad");
        gradient_edge(input)
    };
    inputs.iter().map(edge).collect()
}

/// The edges from which a pass starts, and the gradients that it sends along them.
type Roots = (SmallVec<[Edge; 1]>, SmallVec<[Tensor; 1]>);

fn roots(tensors: &[Tensor], grads: &[Option<Tensor>], create_graph: bool) -> Result<Roots> {
    ensure!(
        grads.is_empty() || grads.len() == tensors.len(),
        InvalidArgument,
        "got {} tensors and {} gradients",
        tensors.len(),
        grads.len()
    );
    let _mode = set_grad_enabled(create_graph);
    let mut roots = Roots::default();
    for (i, tensor) in tensors.iter().enumerate() {
        let grad = grads.get(i).and_then(Option::as_ref);
        let grad = grad.map(|grad| layout_parts::part(tensor, grad)).transpose()?;
        let tensor = &layout_parts::receiver(tensor);
        let Some(edge) = gradient_edge(tensor)? else {
            bail!(Autograd, "element {i} of tensors does not require grad and does not have a grad_fn");
        };
        roots.0.push(edge);
        roots.1.push(seed(i, tensor, grad.as_ref())?);
    }
    Ok(roots)
}

/// The gradient of a root.
fn seed(i: usize, tensor: &Tensor, grad: Option<&Tensor>) -> Result<Tensor> {
    let Some(grad) = grad else {
        ensure!(tensor.numel() == 1, Autograd, "grad can be implicitly created only for scalar outputs");
        ensure!(
            !tensor.is_complex(),
            Autograd,
            "grad can be implicitly created only for real scalar outputs but got {}",
            tensor.dtype()
        );
        return factory::ones_like(tensor);
    };
    ensure!(
        grad.sizes() == tensor.sizes(),
        Autograd,
        "Mismatch in shape: grad_output[{i}] has a shape of torch.Size({:?}) and output[{i}] has a shape of \
         torch.Size({:?}).",
        grad.sizes(),
        tensor.sizes()
    );
    validate_grad(grad.clone(), &OutputInfo::of(tensor), "the caller", i)
}

/// One backward pass. With `inputs` only nodes that lead to these edges run; if the flag beside them is set, the gradients that
/// arrive there are captured and returned, and not accumulated.
fn run(
    roots: &[Edge],
    seeds: SmallVec<[Tensor; 1]>,
    mode: Mode,
    inputs: Option<(&[Option<Edge>], bool)>,
) -> Result<Vec<Option<Tensor>>> {
    let _grad_mode = set_grad_enabled(mode.create_graph);
    let mut task = GraphTask::new(roots);
    let mut results = Vec::new();
    if let Some((inputs, capture)) = inputs {
        task.restrict(inputs, capture);
        results.resize(if capture { inputs.len() } else { 0 }, None);
    }
    for (root, grad) in roots.iter().zip(seeds) {
        task.seed(root, grad, mode.create_graph)?;
    }
    task.start(roots.len());
    let running = Cell::new(None);
    let pass = profiler::begin(profiler::Kind::Backward, "backward", None);
    let call = AssertUnwindSafe(|| run_ready(&mut task, mode, &running, pass.as_ref(), &mut results));
    let (error, node) = match (catch_unwind(call), running.get()) {
        (Ok(Ok(())), _) => return Ok(results),
        (Ok(Err(error)), None) => return Err(error),
        (Ok(Err(error)), Some(node)) => (error, node),
        (Err(panic), Some(node)) => (panicked(node.name(), &*panic), node),
        (Err(panic), None) => return Err(panicked("backward", &*panic)),
    };
    Err(anomaly::explain(error, &**node))
}

/// Runs nodes until none is ready. Stores the node that runs in `running`, for error messages, and reports it to the profiler.
fn run_ready<'a>(
    task: &mut GraphTask<'a>,
    mode: Mode,
    running: &Cell<Option<&'a NodePtr>>,
    pass: Option<&profiler::Open>,
    results: &mut [Option<Tensor>],
) -> Result<()> {
    while let Some(at) = task.pop() {
        let node = task.entries[at as usize].node;
        running.set(Some(node));
        if let Some(pass) = pass {
            record(pass, node);
        }
        run_entry(task, at, mode, results)?;
    }
    Ok(())
}

/// Begins the profiler's event of a node, which ends that of the node before. The last one ends with the pass. So each node costs
/// one call of the profiler and needs no guard.
#[cold]
fn record(pass: &profiler::Open, node: &NodePtr) {
    pass.next_inside(profiler::Kind::Backward, node.name().to_owned(), node.header().sequence_nr());
}

#[cold]
fn panicked(name: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Error::new(ErrorKind::Autograd, format!("{name}: a panic in its backward or a hook: {text}"))
}

/// Runs a node whose gradients have all arrived, with its hooks, and sends the gradients that it returns to the next nodes.
fn run_entry(task: &mut GraphTask<'_>, at: u32, mode: Mode, results: &mut [Option<Tensor>]) -> Result<()> {
    let entry = &mut task.entries[at as usize];
    let (node, needed) = (entry.node, entry.needed);
    let header = node.header();
    let mut grads = std::mem::take(&mut entry.buffer);
    input_buffer::pad(&mut grads, header.outputs().len());
    if let Some(hooks) = header.hooks() {
        let retaining = hooks.run_tensor(&mut grads)?;
        keep_grads(&retaining, &grads, mode.create_graph)?;
    }
    for capture in task.captures(at) {
        results[capture.result] = grads.get(capture.output_nr as usize).cloned().flatten();
    }
    let edges = header.edges();
    if !needed {
        return edges
            .iter()
            .enumerate()
            .try_for_each(|(i, edge)| task.send(at, i, edge.as_ref(), None, mode.create_graph));
    }
    let needed = task.needs(at) & present(edges);
    let cx = Context::new(node, needed, mode.keep_graph, mode.create_graph);
    let mut made = apply(&cx, header, grads)?;
    ensure!(
        made.len() <= edges.len(),
        Autograd,
        "Function {} returned an incorrect number of gradients (expected {}, got {})",
        node.name(),
        edges.len(),
        made.len()
    );
    anomaly::check_nan(&**node, &made)?;
    let made = made.as_mut_slice();
    for (i, edge) in edges.iter().enumerate() {
        let grad = match (made.get_mut(i).and_then(Option::take), edge) {
            (Some(grad), Some(edge)) => Some(validate_along_edge(grad, edge, &cx, i)?),
            _ => None,
        };
        task.send(at, i, edge.as_ref(), grad, mode.create_graph)?;
    }
    Ok(())
}

/// Runs the pre hooks, the node itself and the post hooks.
#[inline]
fn apply(cx: &Context<'_>, header: &NodeHeader, mut grads: Gradients) -> Result<Gradients> {
    let Some(hooks) = header.hooks() else { return cx.node().apply(cx, grads) };
    hooks.run_pre(&mut grads)?;
    let seen = hooks.has_post().then(|| grads.clone());
    let mut made = cx.node().apply(cx, grads)?;
    seen.map_or(Ok(()), |seen| hooks.run_post(&mut made, &seen))?;
    Ok(made)
}

/// Which of the first 64 inputs have an edge, one bit each.
#[inline]
fn present(edges: &[Option<Edge>]) -> u64 {
    (0..edges.len().min(64)).fold(0, |bits, i| bits | u64::from(is_edge(edges, i)) << i)
}

#[inline]
fn validate_along_edge(grad: Tensor, edge: &Edge, cx: &Context<'_>, i: usize) -> Result<Tensor> {
    match edge.node.header().outputs().get(edge.input_nr as usize) {
        Some(info) if info.fits(&grad) => Ok(grad),
        Some(info) => reduce_to_shape(grad, info, cx.name(), i),
        None => bail!(
            Internal,
            "{}: edge {i} leads to output {} of {}, which has fewer",
            cx.name(),
            edge.input_nr,
            edge.node.name()
        ),
    }
}

/// A gradient with the sizes, dtype and device of the output that it is the gradient of. Formulas neither undo broadcasting nor
/// convert dtypes: only the engine does. PyTorch's `validate_outputs`.
#[inline]
fn validate_grad(grad: Tensor, info: &OutputInfo, who: &str, i: usize) -> Result<Tensor> {
    if info.fits(&grad) { Ok(grad) } else { reduce_to_shape(grad, info, who, i) }
}

#[cold]
fn reduce_to_shape(grad: Tensor, info: &OutputInfo, who: &str, i: usize) -> Result<Tensor> {
    let summed = sum_to_size(&grad, &info.sizes).map_err(|error| match error.kind() {
        ErrorKind::Shape => Error::new(
            ErrorKind::Autograd,
            format!(
                "Function {who} returned an invalid gradient at index {i} - got {:?} but expected shape compatible with \
                 {:?}",
                grad.sizes(),
                info.sizes
            ),
        ),
        _ => error,
    })?;
    // An operator may have combined a CPU tensor of one element with tensors of another device.
    let summed = if summed.dim() == 0 { factory::on_device(&summed, info.device)? } else { summed };
    ensure!(
        summed.device() == info.device,
        Device,
        "Function {who} returned an invalid gradient at index {i} - expected device {} but got {}",
        info.device,
        summed.device()
    );
    if summed.dtype() == info.dtype { Ok(summed) } else { factory::to_dtype(&summed, info.dtype) }
}
