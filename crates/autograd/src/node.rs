//! The graph: nodes that turn the gradients of an operator's outputs into those of its inputs, and the edges between them.
//!
//! # Dropping
//! A chain of a million nodes must not be dropped by a million nested calls. Whoever owns a node that may be the last
//! reference to a long chain (a node's edges, a tensor's history, a saved tensor's) gives it up through [`release`], which
//! keeps a queue for each thread: nodes met while a node is being dropped wait there until that one is gone.
#![expect(unsafe_code, reason = "nodes are made in the place where they stay")]

mod saved;

use crate::anomaly;
use crate::engine::Context;
use crate::hooks::NodeHooks;
use crate::spares;
use flambeau_core::{Device, DimVec, Result, ScalarType, ThinPtr, bail, shape};
use flambeau_ops::Tensor;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use saved::Saved;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Gradients of a node's outputs, or of its inputs; `None` stands for zeros of the right shape.
pub type Gradients = SmallVec<[Option<Tensor>; 3]>;

/// Where the gradients of a node's inputs go; `None` for inputs that need none.
pub type Edges = SmallVec<[Option<Edge>; 3]>;

/// An owner of a node of any kind.
pub type NodePtr = ThinPtr<dyn Node>;

/// Moves a node to where it stays.
#[inline]
pub fn new_node<N: Node>(node: N) -> NodePtr {
    // SAFETY: a node is known as itself.
    unsafe { ThinPtr::new(node, |node: &mut N| node) }
}

/// One step of the backward pass. Operators have a [`GraphNode`]; leaves have an accumulator.
///
/// # Safety
/// - (header) The type is `#[repr(C)]`, and its first field is its [`NodeHeader`].
pub unsafe trait Node: Any + Send + Sync {
    /// `MulBackward0`.
    fn name(&self) -> &str;

    /// The gradients of the inputs, one for each edge, from those of the outputs.
    ///
    /// # Errors
    /// `Autograd` where values saved for this have been freed or changed, and those of the operators it calls.
    fn apply(&self, cx: &Context<'_>, grads: Gradients) -> Result<Gradients>;
}

impl dyn Node {
    /// What all nodes have. Not a function of the trait: a pass asks for it several times for each node.
    #[inline]
    pub fn header(&self) -> &NodeHeader {
        // SAFETY: (header).
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

/// "Send the gradient to input `input_nr` of `node`": to the gradient of the output of that number of its operator.
#[derive(Clone)]
pub struct Edge {
    /// The node that takes the gradient.
    pub node: NodePtr,
    /// Which output of the node's operator it is the gradient of.
    pub input_nr: u32,
}

/// Edges in whatever form they come.
pub trait IntoEdges {
    /// Puts them where a node keeps them.
    ///
    /// # Safety
    /// - `place` may be written, and holds nothing.
    unsafe fn write_to(self, place: *mut Edges);
}

impl IntoEdges for Edges {
    unsafe fn write_to(self, place: *mut Edges) {
        // SAFETY: the caller's condition.
        unsafe { place.write(self) }
    }
}

impl<const N: usize> IntoEdges for [Option<Edge>; N] {
    #[inline(always)]
    unsafe fn write_to(self, place: *mut Edges) {
        // SAFETY: the caller's condition; then there are edges, though none yet.
        let edges = unsafe {
            place.write(Edges::new());
            &mut *place
        };
        for edge in self {
            edges.push(edge);
        }
    }
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
            sizes: tensor.sizes().iter().copied().collect(),
            dtype: tensor.dtype(),
            device: tensor.device(),
        }
    }

    /// Those of several, put in their place one by one.
    #[inline(always)]
    fn write_all(place: &mut SmallVec<[OutputInfo; 1]>, tensors: &[&Tensor]) {
        place.reserve(tensors.len());
        for tensor in tensors {
            place.push(OutputInfo { sizes: DimVec::new(), dtype: tensor.dtype(), device: tensor.device() });
            if let Some(info) = place.last_mut() {
                tensor.sizes().iter().for_each(|size| info.sizes.push(*size));
            }
        }
    }

    /// Whether a gradient is as it should be.
    #[inline]
    pub(crate) fn fits(&self, grad: &Tensor) -> bool {
        shape::same(grad.sizes(), &self.sizes) && grad.dtype() == self.dtype && grad.device() == self.device
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
    /// Where the pass that may note such things has its notes about this node.
    pub(crate) entry: AtomicU32,
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// The number of the nodes of leaves, which live as long as the leaves and count as no part of a graph.
const OF_LEAVES: u64 = u64::MAX;

/// The next number in this thread's order of recording, for a node that is counted from now on.
#[inline(always)]
fn next_in_order() -> u64 {
    live::add(1);
    SEQUENCE.replace(SEQUENCE.get() + 1)
}

/// How many nodes this thread has recorded: the number of the next one.
pub(crate) fn recorded_on_this_thread() -> u64 {
    SEQUENCE.get()
}

impl NodeHeader {
    /// For the next node in this thread's order of recording.
    #[inline]
    pub fn new(edges: Edges, outputs: &[&Tensor]) -> Self {
        let mut header = NodeHeader::numbered(next_in_order(), edges);
        header.outputs.extend(outputs.iter().map(|output| OutputInfo::of(output)));
        header
    }

    /// The same, of which the edges stand in their place already.
    ///
    /// # Safety
    /// - All of `place` may be written, and holds nothing but the edges.
    #[inline(always)]
    unsafe fn write_to(place: *mut Self, outputs: &[&Tensor]) {
        // SAFETY: the caller's condition.
        unsafe {
            (&raw mut (*place).sequence_nr).write(next_in_order());
            (&raw mut (*place).hooks).write(OnceCell::new());
            (&raw mut (*place).trace).write(anomaly::trace());
            (&raw mut (*place).entry).write(AtomicU32::new(0));
            (&raw mut (*place).outputs).write(SmallVec::new());
            OutputInfo::write_all(&mut (*place).outputs, outputs);
            let NodeHeader { sequence_nr: _, edges: _, outputs: _, hooks: _, trace: _, entry: _ } = &*place;
        }
    }

    /// For a node that runs as soon as it can, as accumulators do: that frees gradients early.
    #[inline]
    pub(crate) fn first(output: &Tensor) -> Self {
        let mut header = Self::numbered(OF_LEAVES, Edges::new());
        header.outputs.push(OutputInfo::of(output));
        header
    }

    fn numbered(sequence_nr: u64, edges: Edges) -> Self {
        NodeHeader {
            sequence_nr,
            edges,
            outputs: SmallVec::new(),
            hooks: OnceCell::new(),
            trace: anomaly::trace(),
            entry: AtomicU32::new(0),
        }
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

    /// Whether owners of the node are kept for the next graph: it is a leaf's, and nobody waits for hooks to go with it.
    #[inline]
    fn is_spared(&self) -> bool {
        self.sequence_nr == OF_LEAVES && self.hooks.get().is_none()
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
        for edge in &mut self.edges {
            if let Some(edge) = edge.take() {
                release(edge.node);
            }
        }
        if self.sequence_nr != OF_LEAVES {
            live::add(-1);
        }
    }
}

/// The derivative of an operator: a struct of saved values that knows the formula. Generated.
pub trait Backward: Send + Sync + 'static {
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
#[repr(C)]
pub struct GraphNode<B> {
    header: NodeHeader,
    saved: Saved<B>,
}

impl<B: Backward> GraphNode<B> {
    /// A node for the operator call that `backward` is the derivative of, with this one output.
    #[inline(always)]
    pub fn record(edges: impl IntoEdges, output: &Tensor, backward: B) -> NodePtr {
        Self::record_all(edges, std::slice::from_ref(&output), backward)
    }

    /// The same for any number of outputs.
    ///
    /// The node is made where it stays, part by part: moved there, its parts would be read while they are still being
    /// written, which stops the processor for longer than the rest takes.
    #[inline(always)]
    pub fn record_all(edges: impl IntoEdges, outputs: &[&Tensor], backward: B) -> NodePtr {
        let make = |place: *mut Self| {
            // SAFETY: the place is ours, and all of it is written.
            unsafe {
                edges.write_to(&raw mut (*place).header.edges);
                NodeHeader::write_to(&raw mut (*place).header, outputs);
                (&raw mut (*place).saved).write(Saved::new(backward));
                // Does not compile unless all fields are here; below too.
                let GraphNode { header: _, saved: _ } = &*place;
            }
        };
        // SAFETY: `make` writes a node, and a node is known as itself.
        unsafe { ThinPtr::new_in_place(make, |node: &mut Self| node) }
    }
}

// SAFETY: (header).
unsafe impl<B: Backward> Node for GraphNode<B> {
    fn name(&self) -> &str {
        B::NAME
    }

    fn apply(&self, cx: &Context<'_>, grads: Gradients) -> Result<Gradients> {
        if grads.iter().all(Option::is_none) {
            return Ok(Gradients::new());
        }
        let _untracked = cx.skip_view_tracking();
        let result = if B::SAVES {
            self.saved.lend(cx.keep_graph(), |saved| saved.backward(cx, &grads))
        } else {
            // SAFETY: (kept) `SAVES` is the same each time.
            unsafe { self.saved.kept() }.map(|saved| saved.backward(cx, &grads))
        };
        result.unwrap_or_else(|| bail!(Autograd, "{SECOND_TIME}"))
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
    static WAITING: ManuallyDrop<RefCell<Waiting>> =
        const { ManuallyDrop::new(RefCell::new(Waiting { first: None, others: Vec::new() })) };
}

/// Nodes that wait to be dropped. Along a chain there is never more than one, which takes no allocation.
struct Waiting {
    first: Option<NodePtr>,
    others: Vec<NodePtr>,
}

impl Waiting {
    #[inline]
    fn push(&mut self, node: NodePtr) {
        match self.first {
            None => self.first = Some(node),
            Some(_) => self.others.push(node),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<NodePtr> {
        if self.others.is_empty() { self.first.take() } else { self.others.pop() }
    }
}

/// Gives up one owner of `node`; see [Dropping](self#dropping).
#[inline]
pub(crate) fn release(node: NodePtr) {
    if !ThinPtr::is_unique(&node) {
        // Even if another thread gives up the other owner at once, what this drops goes through the queue.
        if node.header().is_spared() {
            spares::keep(node);
        }
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
    while let Some(node) = WAITING.with(|waiting| waiting.borrow_mut().pop()) {
        drop(node);
    }
    let room = WAITING.with(|waiting| take(&mut waiting.borrow_mut().others));
    drop(room);
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
