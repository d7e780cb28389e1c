//! Nodes, which turn the gradients of an operator's outputs into those of its inputs, and the edges between them.
#![expect(unsafe_code, reason = "nodes are made in the place where they stay")]

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

    /// Shows what the node owns beside its edges and hooks: of what it does not show, a collector of cycles cannot know.
    fn owns(&self, _visit: &mut dyn FnMut(Owned<'_>)) {}
}

/// An owner of something, or an object of a front end's.
#[derive(Clone, Copy)]
pub enum Owned<'a> {
    /// An owner of a node.
    Node(&'a NodePtr),
    /// An owner of a tensor.
    Tensor(&'a Tensor),
    /// What a hook, a function or a packed tensor holds, or the extension of a tensor.
    Object(&'a dyn Any),
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

/// What all nodes have: their place in the order of recording, edges, outputs, hooks.
pub struct NodeHeader {
    sequence_nr: u64,
    pub(super) edges: Edges,
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
    pub(super) unsafe fn write_to(place: *mut Self, outputs: &[&Tensor]) {
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
    pub(super) fn is_spared(&self) -> bool {
        self.sequence_nr == OF_LEAVES && self.hooks.get().is_none()
    }

    /// Whether it is counted among the nodes of operators.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.sequence_nr != OF_LEAVES
    }

    /// With the hooks of another node.
    pub(crate) fn sharing_hooks(mut self, hooks: &Arc<NodeHooks>) -> Self {
        hooks.note_sharing();
        self.hooks = OnceCell::with_value(hooks.clone());
        self
    }
}

/// What a node knows of the pass it runs in.
pub struct Context<'a> {
    node: &'a NodePtr,
    base: Option<&'a Geometry>,
    /// Which of the first 64 gradients are wanted, one bit each.
    needed: u64,
    keep_graph: bool,
    create_graph: bool,
}

impl<'a> Context<'a> {
    /// For `node`, in a pass that wants the gradients of the edges whose bits are set in `needed`.
    #[inline(always)]
    pub(crate) fn new(node: &'a NodePtr, needed: u64, keep_graph: bool, create_graph: bool) -> Self {
        Context { node, base: None, needed, keep_graph, create_graph }
    }

    /// Whether the gradient of input `i` is wanted: the input needs one, and this pass leads there.
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

    /// The base that the operator wrote through a view, if it did.
    pub(crate) fn base(&self) -> Option<&Geometry> {
        self.base
    }

    /// For the node of an operator that wrote through a view of `base`.
    pub(crate) fn through_view<'b>(&self, base: &'b Geometry) -> Context<'b>
    where
        'a: 'b,
    {
        Context { base: Some(base), ..*self }
    }

    /// While formulas run unrecorded, nobody will ask which base a view of theirs looks at, but for a tangent.
    pub(crate) fn skip_view_tracking(&self) -> Option<ThreadKeysGuard> {
        let skip = || ThreadKeysGuard::exclude(DispatchKeySet::of(DispatchKey::ADInplaceOrView));
        (!self.create_graph && !is_dual_level_open()).then(skip)
    }
}

/// Whether edge number `i` leads somewhere.
#[inline]
pub(crate) fn is_edge(edges: &[Option<Edge>], i: usize) -> bool {
    matches!(edges.get(i), Some(Some(_)))
}
