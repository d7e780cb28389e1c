//! Nodes, which compute the gradients of an operator's inputs from those of its outputs, and the edges between them.
#![expect(unsafe_code, reason = "nodes are constructed in their final memory, field by field")]

use super::dual_level::is_dual_level_open;
use super::gradients::{Gradients, OutputInfo};
use super::hooks::NodeHooks;
use super::live;
use crate::anomaly;
use flambeau_core::{DispatchKey, DispatchKeySet, Geometry, Result, ThinPtr, ThreadKeysGuard};
use flambeau_ops::Tensor;
use once_cell::sync::OnceCell;
use smallvec::SmallVec;
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Where the gradients of a node's inputs go; `None` for inputs that need no gradient.
pub type Edges = SmallVec<[Option<Edge>; 3]>;

/// A counted reference to a node of any kind.
pub type NodePtr = ThinPtr<dyn Node>;

/// Allocates a node.
#[inline]
pub fn new_node<N: Node>(node: N) -> NodePtr {
    // SAFETY: the closure coerces the reference to a trait object and does nothing else.
    unsafe { ThinPtr::new(node, |node: &mut N| node) }
}

/// One step of the backward pass. Operators have a [`GraphNode`](crate::GraphNode); leaves have an accumulator.
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

    /// Visits what the node owns beside its edges and hooks. A garbage collector cannot break cycles through what is not visited.
    fn owns(&self, _visit: &mut dyn FnMut(Owned<'_>)) {}
}

/// A counted reference to a node or to a tensor, or an object of the front end.
#[derive(Clone, Copy)]
pub enum Owned<'a> {
    /// A reference to a node.
    Node(&'a NodePtr),
    /// A reference to a tensor.
    Tensor(&'a Tensor),
    /// An object that a hook, a function or a packed tensor owns, or the front end's extension of a tensor.
    Object(&'a dyn Any),
}

impl dyn Node {
    /// What all nodes have. Not a method of the trait, since a virtual call would be slow: a pass needs it several times for each
    /// node.
    #[inline]
    pub fn header(&self) -> &NodeHeader {
        // SAFETY: (header).
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

/// The connection from an input of one node to the node that receives the gradient of this input. PyTorch's `Edge`.
#[derive(Clone)]
pub struct Edge {
    /// The node that receives the gradient.
    pub node: NodePtr,
    /// Which input of that node receives it: the gradient is that of the output with this number of the node's operator.
    pub input_nr: u32,
}

/// A list or an array of edges.
pub trait IntoEdges {
    /// Writes the edges to the field of a node.
    ///
    /// # Safety
    /// - `dst` is valid for writes, and uninitialised: what it holds is not dropped.
    unsafe fn write_to(self, dst: *mut Edges);
}

impl IntoEdges for Edges {
    unsafe fn write_to(self, dst: *mut Edges) {
        // SAFETY: the caller's condition.
        unsafe { dst.write(self) }
    }
}

impl<const N: usize> IntoEdges for [Option<Edge>; N] {
    #[inline(always)]
    unsafe fn write_to(self, dst: *mut Edges) {
        // SAFETY: the caller's condition; after the write `dst` holds an empty list.
        let edges = unsafe {
            dst.write(Edges::new());
            &mut *dst
        };
        for edge in self {
            edges.push(edge);
        }
    }
}

/// What all nodes have: their sequence number, edges, metadata of the outputs, hooks.
pub struct NodeHeader {
    sequence_nr: u64,
    pub(super) edges: Edges,
    outputs: SmallVec<[OutputInfo; 1]>,
    hooks: OnceCell<Arc<NodeHooks>>,
    trace: Option<Box<str>>,
    /// The index of this node in the list of the backward pass that last wrote it here; see `engine/entries.rs`.
    pub(crate) entry: AtomicU32,
}

thread_local! {
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// The sequence number of the nodes of leaves. They live as long as the leaves, and are not counted as parts of a graph.
const LEAF_SEQUENCE_NR: u64 = u64::MAX;

/// The next sequence number of this thread, for a node that is counted from now on.
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
    /// The header of the next node that this thread records.
    #[inline]
    pub fn new(edges: Edges, outputs: &[&Tensor]) -> Self {
        let mut header = NodeHeader::numbered(next_in_order(), edges);
        header.outputs.extend(outputs.iter().map(|output| OutputInfo::of(output)));
        header
    }

    /// Writes such a header, except for the edges, which are already written.
    ///
    /// # Safety
    /// - All of `dst` is valid for writes; `edges` is initialised, and the other fields are not.
    #[inline(always)]
    pub(super) unsafe fn write_to(dst: *mut Self, outputs: &[&Tensor]) {
        // SAFETY: the caller's condition.
        unsafe {
            (&raw mut (*dst).sequence_nr).write(next_in_order());
            (&raw mut (*dst).hooks).write(OnceCell::new());
            (&raw mut (*dst).trace).write(anomaly::trace());
            (&raw mut (*dst).entry).write(AtomicU32::new(0));
            (&raw mut (*dst).outputs).write(SmallVec::new());
            OutputInfo::write_all(&mut (*dst).outputs, outputs);
            let NodeHeader { sequence_nr: _, edges: _, outputs: _, hooks: _, trace: _, entry: _ } = &*dst;
        }
    }

    /// The header of a node that runs before all others that are ready. Accumulators do, so that gradients are freed early.
    #[inline]
    pub(crate) fn first(output: &Tensor) -> Self {
        let mut header = Self::numbered(LEAF_SEQUENCE_NR, Edges::new());
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

    /// Sizes, dtypes and devices of the operator's outputs.
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

    /// The hooks; they are created if there were none.
    pub(crate) fn hooks_or_init(&self) -> &Arc<NodeHooks> {
        self.hooks.get_or_init(Arc::default)
    }

    /// Whether a reference to the node that is given up goes to the [cache](super::grad_accumulator_cache): the node is that of a
    /// leaf, and it has no hooks, which the user may expect to be dropped with it.
    #[inline]
    pub(super) fn is_cacheable(&self) -> bool {
        self.sequence_nr == LEAF_SEQUENCE_NR && self.hooks.get().is_none()
    }

    /// Whether it is counted among the nodes of operators.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.sequence_nr != LEAF_SEQUENCE_NR
    }

    /// The header with the hooks of another node, which both share.
    pub(crate) fn sharing_hooks(mut self, hooks: &Arc<NodeHooks>) -> Self {
        hooks.mark_shared();
        self.hooks = OnceCell::with_value(hooks.clone());
        self
    }
}

/// What a node knows of the pass it runs in.
pub struct Context<'a> {
    node: &'a NodePtr,
    base: Option<&'a Geometry>,
    base_is_complex: bool,
    /// Which of the first 64 gradients are needed, one bit each.
    needed: u64,
    keep_graph: bool,
    create_graph: bool,
}

impl<'a> Context<'a> {
    /// For `node`, in a pass that needs the gradients of the edges whose bits are set in `needed`.
    #[inline(always)]
    pub(crate) fn new(node: &'a NodePtr, needed: u64, keep_graph: bool, create_graph: bool) -> Self {
        Context { node, base: None, base_is_complex: false, needed, keep_graph, create_graph }
    }

    /// Whether the gradient of input `i` is to be computed: the input requires one, and this pass uses it.
    #[inline]
    pub fn needs(&self, i: usize) -> bool {
        if i < 64 { self.needed >> i & 1 == 1 } else { is_edge(self.node.header().edges(), i) }
    }

    /// Whether the pass is itself recorded.
    #[inline]
    pub fn create_graph(&self) -> bool {
        self.create_graph
    }

    /// Whether saved values stay for another pass.
    #[inline]
    pub fn keep_graph(&self) -> bool {
        self.keep_graph
    }

    /// The name of the node.
    pub fn name(&self) -> &str {
        self.node.name()
    }

    #[inline]
    pub(crate) fn node(&self) -> &'a NodePtr {
        self.node
    }

    /// The base that the operator wrote through a view, if it did, and whether that is complex.
    pub(crate) fn base(&self) -> Option<(&Geometry, bool)> {
        self.base.map(|base| (base, self.base_is_complex))
    }

    /// For the node of an operator that wrote through a view of `base`.
    pub(crate) fn through_view<'b>(&self, base: &'b Geometry, base_is_complex: bool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { base: Some(base), base_is_complex, ..*self }
    }

    /// The same for a backward that a user wrote, which may record calls of its own: saved tensors keep their history.
    pub(crate) fn with_history(&self) -> Context<'a> {
        Context { create_graph: true, ..*self }
    }

    /// Disables the tracking of views while a formula runs unrecorded: only recording and tangents need the base of a view.
    pub(crate) fn skip_view_tracking(&self) -> Option<ThreadKeysGuard> {
        let skip = || ThreadKeysGuard::exclude(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
        (!self.create_graph && !is_dual_level_open()).then(skip)
    }
}

/// Whether input `i` has an edge.
#[inline]
pub(crate) fn is_edge(edges: &[Option<Edge>], i: usize) -> bool {
    matches!(edges.get(i), Some(Some(_)))
}
