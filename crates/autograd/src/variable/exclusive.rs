//! What only a given tensor or node keeps alive, for a front end whose garbage collector must find cycles through the graph (Python's
//! `tp_traverse`).
//!
//! The collector may count a reference from Rust only if it is reachable from one object of the collector alone. So the traversal
//! enters a node or a tensor only once it has found all references to it, weak ones to a tensor included, below the root. What it
//! enters can then be reached by no other thread while the root exists: a second traversal finds the same.
#![expect(
    unsafe_code,
    reason = "keeps references to locked values after unlocking, where no other thread can reach them"
)]

use super::meta::{Variable, variable};
use crate::graph::grad_accumulator_cache;
use crate::graph::node::NodePtr;
pub use crate::graph::node::Owned;
use flambeau_core::{IntrusivePtr, ThinPtr};
use flambeau_ops::Tensor;
use std::any::Any;
use std::collections::HashMap;
use std::ptr;

/// Calls `visit` with the front end's objects that are reachable only through `root`. Returns whether `root` is the only reference to
/// what it refers to, and no weak reference could become another.
///
/// A second call has the same result unless a call that borrows `root` runs meanwhile, outside the front end's lock.
pub fn visit_exclusive(root: Owned<'_>, visit: &mut dyn FnMut(&dyn Any)) -> bool {
    let mut traversal = Traversal::default();
    traversal.find(root);
    let exclusive = !traversal.todo.is_empty();
    while let Some(owned) = traversal.todo.pop() {
        traversal.enter(owned, visit);
    }
    exclusive
}

/// Whether `tensor` is the only reference to its `TensorImpl`, and no weak reference could become another.
pub fn is_exclusive(tensor: &Tensor) -> bool {
    let mut traversal = Traversal::default();
    traversal.find(Owned::Tensor(tensor));
    !traversal.todo.is_empty()
}

/// Drops history, gradient and hooks of a tensor that only the caller owns, and, if it is a view, of its base if only the view owns
/// that. `forget` is called with the front end's extension of each.
pub fn clear_autograd_state(tensor: &Tensor, forget: &mut dyn FnMut(&dyn Any)) {
    let mut next = Some(tensor);
    while let Some(tensor) = next.take() {
        if IntrusivePtr::strong_count(tensor.impl_()) != 1 {
            return;
        }
        if let Some(extension) = tensor.impl_().front_end() {
            forget(extension);
        }
        let Some(variable) = variable(tensor) else { return };
        variable.set_edge(None);
        let grad = variable.state.lock().grad.take();
        drop(grad);
        if let Some(node) = variable.accumulator.get() {
            clear_hooks(node);
        }
        next = variable.view.get().map(|view| &view.base);
    }
}

/// Removes the hooks of a node that only the caller owns.
pub fn clear_hooks(node: &NodePtr) {
    if owners(node) == 1
        && let Some(hooks) = node.header().hooks()
    {
        hooks.clear();
    }
}

/// The number of references to a node, without the one in this thread's cache.
fn owners(node: &NodePtr) -> usize {
    let cached = !node.header().is_counted() && grad_accumulator_cache::contains(node);
    ThinPtr::strong_count(node) - usize::from(cached)
}

fn address(tensor: &Tensor) -> usize {
    IntrusivePtr::as_ptr(tensor.impl_()).addr()
}

/// # Safety
/// - (exclusive) The value exists, unchanged, for all of `'a`.
unsafe fn outliving<'a, T>(reference: &T) -> &'a T {
    // SAFETY: (exclusive).
    unsafe { &*ptr::from_ref(reference) }
}

/// Who has a weak reference to a tensor, which can be upgraded.
enum Weak {
    Nobody,
    /// The node at this address, so whoever owns that.
    OwnersOf(usize),
    Others,
}

#[derive(Default)]
struct Traversal<'a> {
    /// By address, how many references were found so far to what has several.
    found: HashMap<usize, usize>,
    /// Tensors of which all strong references were found, by the address of the node that has a weak one.
    waiting: HashMap<usize, &'a Tensor>,
    /// Nodes and tensors of which all references were found, to be entered.
    todo: Vec<Owned<'a>>,
}

impl<'a> Traversal<'a> {
    fn find(&mut self, owned: Owned<'a>) {
        match owned {
            Owned::Node(node) => self.find_node(node),
            Owned::Tensor(tensor) => {
                if self.is_last(address(tensor), IntrusivePtr::strong_count(tensor.impl_())) {
                    self.settle(tensor);
                }
            }
            Owned::Object(_) => {}
        }
    }

    fn find_node(&mut self, node: &'a NodePtr) {
        let at = ThinPtr::address(node);
        if self.is_last(at, owners(node)) {
            self.todo.push(Owned::Node(node));
        } else if let Some(tensor) = self.waiting.remove(&at) {
            self.settle(tensor);
        }
    }

    /// Counts a reference; whether all `owners` of them were found now.
    fn is_last(&mut self, address: usize, owners: usize) -> bool {
        if owners == 1 {
            return true;
        }
        let found = self.found.entry(address).or_default();
        *found += 1;
        *found == owners
    }

    /// Handles a tensor of which all strong references were found.
    fn settle(&mut self, tensor: &'a Tensor) {
        match self.weak_owner(tensor) {
            Weak::Nobody => self.todo.push(Owned::Tensor(tensor)),
            Weak::OwnersOf(node) => {
                self.waiting.insert(node, tensor);
            }
            Weak::Others => {}
        }
    }

    /// The accumulator of a leaf has a weak reference to the leaf, and the hooks of a node to tensors with `retain_grad`.
    fn weak_owner(&self, tensor: &Tensor) -> Weak {
        match (IntrusivePtr::weak_count(tensor.impl_()), variable(tensor)) {
            (0, _) => Weak::Nobody,
            (1, Some(variable)) => self.only_weak_owner(tensor, variable),
            _ => Weak::Others,
        }
    }

    fn only_weak_owner(&self, tensor: &Tensor, variable: &Variable) -> Weak {
        // If one reference to the node was not found yet, it is that of the tensor, which was not entered yet.
        let remaining = |node: &NodePtr| {
            let at = ThinPtr::address(node);
            let found = self.found.get(&at).copied().unwrap_or(0);
            if owners(node) == found + 1 { Weak::Nobody } else { Weak::OwnersOf(at) }
        };
        if let Some(node) = variable.accumulator.get() {
            return remaining(node);
        }
        let state = variable.state.lock();
        match &state.grad_fn {
            Some(node) if node.header().hooks().is_some_and(|hooks| hooks.retains(tensor)) => remaining(node),
            _ => Weak::Others,
        }
    }

    fn enter(&mut self, owned: Owned<'a>, visit: &mut dyn FnMut(&dyn Any)) {
        match owned {
            Owned::Node(node) => self.enter_node(node, visit),
            Owned::Tensor(tensor) => self.enter_tensor(tensor, visit),
            Owned::Object(object) => visit(object),
        }
    }

    fn enter_tensor(&mut self, tensor: &'a Tensor, visit: &mut dyn FnMut(&dyn Any)) {
        if let Some(extension) = tensor.impl_().front_end() {
            visit(extension);
        }
        let Some(variable) = variable(tensor) else { return };
        let (grad, node) = {
            let state = variable.state.lock();
            // SAFETY: (exclusive) only the traversal can reach the tensor.
            unsafe {
                (
                    state.grad.as_ref().map(|grad| outliving(grad)),
                    state.grad_fn.as_ref().map(|n| outliving(n)),
                )
            }
        };
        let base = variable.view.get().map(|view| &view.base);
        [grad, base].into_iter().flatten().for_each(|tensor| self.find(Owned::Tensor(tensor)));
        [node, variable.accumulator.get()].into_iter().flatten().for_each(|node| self.find_node(node));
    }

    fn enter_node(&mut self, node: &'a NodePtr, visit: &mut dyn FnMut(&dyn Any)) {
        if let Some(hooks) = node.header().hooks() {
            hooks.visit_held(visit);
        }
        node.header().edges().iter().flatten().for_each(|edge| self.find_node(&edge.node));
        node.owns(&mut |owned| match owned {
            Owned::Object(object) => visit(object),
            // SAFETY: (exclusive) only the traversal can reach the node.
            Owned::Node(node) => self.find_node(unsafe { outliving(node) }),
            // SAFETY: as above.
            Owned::Tensor(tensor) => self.find(Owned::Tensor(unsafe { outliving(tensor) })),
        });
    }
}
