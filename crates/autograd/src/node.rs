//! The graph: nodes that turn the gradients of an operator's outputs into those of its inputs, and the edges between them.
//!
//! # Dropping
//! A chain of a million nodes must not be dropped by a million nested calls. Whoever owns a node that may be the last
//! reference to a long chain (a node's edges, a tensor's history, a saved tensor's) gives it up through [`release`], which
//! keeps a queue for each thread: nodes met while a node is being dropped wait there until that one is gone.
#![expect(unsafe_code, reason = "nodes are made in the place where they stay")]

use crate::anomaly;
use crate::engine::Context;
use crate::hooks::NodeHooks;
use flambeau_core::{Device, DimVec, Result, ScalarType, bail};
use flambeau_ops::Tensor;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Gradients of a node's outputs, or of its inputs; `None` stands for zeros of the right shape.
pub type Gradients = SmallVec<[Option<Tensor>; 2]>;

/// Where the gradients of a node's inputs go; `None` for inputs that need none.
pub type Edges = SmallVec<[Option<Edge>; 2]>;

/// One step of the backward pass. Operators have a [`GraphNode`]; leaves have an accumulator.
pub trait Node: Any + Send + Sync {
    /// What all nodes have.
    fn header(&self) -> &NodeHeader;

    /// `MulBackward0`.
    fn name(&self) -> &str;

    /// The gradients of the inputs, one for each edge, from those of the outputs.
    ///
    /// # Errors
    /// `Autograd` where values saved for this have been freed or changed, and those of the operators it calls.
    fn apply(&self, cx: &Context<'_>, grads: Gradients) -> Result<Gradients>;
}

/// "Send the gradient to input `input_nr` of `node`": to the gradient of the output of that number of its operator.
#[derive(Clone)]
pub struct Edge {
    /// The node that takes the gradient.
    pub node: Arc<dyn Node>,
    /// Which output of the node's operator it is the gradient of.
    pub input_nr: u32,
}

/// Shape, type and place of one output of an operator: what its gradient is brought to.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputInfo {
    pub(crate) sizes: DimVec,
    pub(crate) dtype: ScalarType,
    pub(crate) device: Device,
}

impl OutputInfo {
    /// That of `tensor`.
    #[inline]
    pub fn of(tensor: &Tensor) -> Self {
        OutputInfo {
            sizes: DimVec::from_slice(tensor.sizes()),
            dtype: tensor.dtype(),
            device: tensor.device(),
        }
    }

    /// The sizes of the output.
    pub fn sizes(&self) -> &[i64] {
        &self.sizes
    }
}

/// What all nodes have: their place in the order of recording, edges, outputs, hooks.
pub struct NodeHeader {
    sequence_nr: u64,
    edges: Edges,
    outputs: SmallVec<[OutputInfo; 1]>,
    hooks: OnceCell<Arc<NodeHooks>>,
    trace: Option<Box<str>>,
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// The number of the nodes of leaves, which live as long as the leaves and count as no part of a graph.
const OF_LEAVES: u64 = u64::MAX;

impl NodeHeader {
    /// For the next node in this thread's order of recording.
    #[inline(always)]
    pub fn new(edges: Edges, outputs: SmallVec<[OutputInfo; 1]>) -> Self {
        let sequence_nr = SEQUENCE.replace(SEQUENCE.get() + 1);
        Self::numbered(sequence_nr, edges, outputs)
    }

    /// For a node that runs as soon as it can, as accumulators do: that frees gradients early.
    #[inline]
    pub(crate) fn first(output: OutputInfo) -> Self {
        Self::numbered(OF_LEAVES, Edges::new(), SmallVec::from_buf([output]))
    }

    #[inline(always)]
    fn numbered(sequence_nr: u64, edges: Edges, outputs: SmallVec<[OutputInfo; 1]>) -> Self {
        if sequence_nr != OF_LEAVES {
            live::add(1);
        }
        NodeHeader { sequence_nr, edges, outputs, hooks: OnceCell::new(), trace: anomaly::trace() }
    }

    /// Nodes with higher numbers were recorded later, and run earlier.
    pub fn sequence_nr(&self) -> u64 {
        self.sequence_nr
    }

    /// Where the gradients of the inputs go. PyTorch's `next_functions`.
    #[inline]
    pub fn edges(&self) -> &[Option<Edge>] {
        &self.edges
    }

    /// What is known of the operator's outputs.
    #[inline]
    pub fn outputs(&self) -> &[OutputInfo] {
        &self.outputs
    }

    /// The backtrace of the recording call, if anomaly mode was on.
    pub fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    #[inline]
    pub(crate) fn hooks(&self) -> Option<&Arc<NodeHooks>> {
        self.hooks.get()
    }

    /// The hooks, made now if there were none.
    pub(crate) fn hooks_or_init(&self) -> &Arc<NodeHooks> {
        self.hooks.get_or_init(Arc::default)
    }

    /// With the hooks of another node.
    pub(crate) fn sharing_hooks(mut self, hooks: &Arc<NodeHooks>) -> Self {
        self.hooks = OnceCell::with_value(hooks.clone());
        self
    }
}

impl Drop for NodeHeader {
    #[inline]
    fn drop(&mut self) {
        self.edges.drain(..).flatten().for_each(|edge| release(edge.node));
        if self.sequence_nr != OF_LEAVES {
            live::add(-1);
        }
    }
}

/// The derivative of an operator: a struct of saved values that knows the formula. Generated.
///
/// A clone of it runs, so that no lock is held while operators and hooks do; a clone must therefore be cheap.
pub trait Backward: Clone + Send + Sync + 'static {
    /// `MulBackward0`.
    const NAME: &'static str;

    /// Whether there are saved tensors, which are freed after a backward pass that does not retain the graph.
    const SAVES: bool;

    /// The gradients of the inputs, one for each edge; those that [`Context::needs`] denies may be `None`. At least one
    /// of `grads` is there.
    ///
    /// # Errors
    /// Those of unpacking saved tensors and of the operators it calls.
    fn backward(&self, cx: &Context<'_>, grads: &Gradients) -> Result<Gradients>;
}

/// The node of an operator.
pub struct GraphNode<B> {
    header: NodeHeader,
    saved: Mutex<Option<B>>,
}

impl<B: Backward> GraphNode<B> {
    /// A node for the operator call that `backward` is the derivative of.
    #[inline]
    pub fn new(edges: Edges, outputs: SmallVec<[OutputInfo; 1]>, backward: B) -> Arc<Self> {
        // Made in its place: `Arc::new` would make it elsewhere and move it, while its parts are still being written.
        let node = Arc::<Self>::new_uninit();
        let place: *mut Self = Arc::as_ptr(&node).cast_mut().cast();
        // SAFETY: room for a node, of which nobody else knows; it is one when it is said to be.
        unsafe {
            place.write(GraphNode {
                header: NodeHeader::new(edges, outputs),
                saved: Mutex::new(Some(backward)),
            });
            node.assume_init()
        }
    }
}

impl<B: Backward> Node for GraphNode<B> {
    #[inline]
    fn header(&self) -> &NodeHeader {
        &self.header
    }

    fn name(&self) -> &str {
        B::NAME
    }

    fn apply(&self, cx: &Context<'_>, grads: Gradients) -> Result<Gradients> {
        if grads.iter().all(Option::is_none) {
            return Ok(Gradients::new());
        }
        let keep = cx.keep_graph() || !B::SAVES;
        let saved = if keep { self.saved.lock().clone() } else { self.saved.lock().take() };
        let Some(saved) = saved else { bail!(Autograd, "{SECOND_TIME}") };
        let _untracked = cx.skip_view_tracking();
        let result = saved.backward(cx, &grads);
        if result.is_err() && !keep {
            *self.saved.lock() = Some(saved);
        }
        result
    }
}

/// Said where saved values are gone.
pub(crate) const SECOND_TIME: &str = "Trying to backward through the graph a second time (or directly access saved tensors \
    after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or \
    autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to \
    access saved tensors after calling backward.";

thread_local! {
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    // No destructor, so that it can be used while the thread's other locals are destroyed; it is empty between calls.
    static WAITING: ManuallyDrop<RefCell<Vec<Arc<dyn Node>>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Gives up one owner of `node`; see [Dropping](self#dropping).
#[inline]
pub(crate) fn release(node: Arc<dyn Node>) {
    if Arc::strong_count(&node) > 1 {
        // Even if another thread gives up the other owner at once, what this drops goes through the queue.
        return;
    }
    if DROPPING.get() {
        WAITING.with(|waiting| waiting.borrow_mut().push(node));
        return;
    }
    /// Also where a saved value's own destructor panics.
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            DROPPING.set(false);
        }
    }
    DROPPING.set(true);
    let _done = Done;
    drop(node);
    drop_waiting();
}

#[inline]
fn drop_waiting() {
    let mut any = false;
    while let Some(node) = WAITING.with(|waiting| waiting.borrow_mut().pop()) {
        any = true;
        drop(node);
    }
    if any {
        WAITING.with(|waiting| drop(take(&mut *waiting.borrow_mut())));
    }
}

/// How many nodes of operators exist, in all threads. A program that holds no history gets 0: nothing leaks.
///
/// ```
/// use flambeau_autograd::{Autograd, live_nodes};
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from_vec(vec![1.0f32], &[1])?;
/// x.requires_grad_(true)?;
/// let before = live_nodes();
/// let y = ops::exp(&x)?;
/// assert_eq!(live_nodes(), before + 1); // exp's
/// drop(y);
/// assert_eq!(live_nodes(), before);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn live_nodes() -> i64 {
    live::sum()
}

/// Counting without a word that all threads write: each thread has its own counter, and readers add them up.
mod live {
    use super::*;

    static COUNTERS: Mutex<Vec<Arc<AtomicI64>>> = Mutex::new(Vec::new());
    /// The sum of the threads that have exited.
    static EXITED: AtomicI64 = AtomicI64::new(0);

    struct Counter(Arc<AtomicI64>);

    thread_local! {
        static COUNTER: Counter = {
            let counter = Arc::new(AtomicI64::new(0));
            COUNTERS.lock().push(counter.clone());
            Counter(counter)
        };
    }

    impl Drop for Counter {
        fn drop(&mut self) {
            let mut counters = COUNTERS.lock();
            counters.retain(|counter| !Arc::ptr_eq(counter, &self.0));
            EXITED.fetch_add(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn add(change: i64) {
        // Only its own thread writes a counter, so a load and a store will do.
        let counted = COUNTER.try_with(|counter| {
            counter.0.store(counter.0.load(Ordering::Relaxed) + change, Ordering::Relaxed);
        });
        if counted.is_err() {
            EXITED.fetch_add(change, Ordering::Relaxed);
        }
    }

    pub(super) fn sum() -> i64 {
        let counters = COUNTERS.lock();
        EXITED.load(Ordering::Relaxed) + counters.iter().map(|c| c.load(Ordering::Relaxed)).sum::<i64>()
    }
}
