//! What a tensor or a node alone keeps alive, for a front end whose collector of cycles must see through the graph.
//!
//! A collector may count a reference from Rust only where its one owner is an object of the collector's own. So the walk follows an
//! owner of a node or of a tensor only once it has met all of its owners, and all weak ones of a tensor, below the root. Whatever it
//! enters is then out of reach of every other thread, and stays so for as long as the root does: what is found once is found again.
#![expect(unsafe_code, reason = "follows what nobody else can change past the locks that guard it")]

use super::meta::{Variable, variable};
use crate::graph::node::NodePtr;
pub use crate::graph::node::Owned;
use crate::graph::spares;
use flambeau_core::{IntrusivePtr, ThinPtr};
use flambeau_ops::Tensor;
use std::any::Any;
use std::collections::HashMap;
use std::ptr;

/// Calls `visit` with the front end's objects that nobody reaches but through `root`, and says whether `root` is the only owner of
/// what it owns, with nobody else who could come to be one.
///
/// What it says is the same again while nobody works with a borrow of `root`, as a call does that runs without the front end's lock.
pub fn visit_exclusive(root: Owned<'_>, visit: &mut dyn FnMut(&dyn Any)) -> bool {
    let mut walk = Walk::default();
    walk.meet(root);
    let alone = !walk.todo.is_empty();
    while let Some(owned) = walk.todo.pop() {
        walk.enter(owned, visit);
    }
    alone
}

/// Whether `tensor` is the only owner of its tensor, with nobody else who could come to be one.
pub fn is_exclusive(tensor: &Tensor) -> bool {
    let mut walk = Walk::default();
    walk.meet(Owned::Tensor(tensor));
    !walk.todo.is_empty()
}

/// Gives up history, gradient and hooks of a tensor that nobody but the caller owns, and of the base of such a view. `forget` takes
/// what a front end keeps with it.
pub fn give_up(tensor: &Tensor, forget: &mut dyn FnMut(&dyn Any)) {
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
            give_up_hooks(node);
        }
        next = variable.view.get().map(|view| &view.base);
    }
}

/// Gives up the hooks of a node that nobody but the caller owns.
pub fn give_up_hooks(node: &NodePtr) {
    if owners(node) == 1
        && let Some(hooks) = node.header().hooks()
    {
        hooks.give_up();
    }
}

/// How many there are, not counting the one that this thread, which is here now, keeps for the next graph.
fn owners(node: &NodePtr) -> usize {
    let spare = !node.header().is_counted() && spares::has(node);
    ThinPtr::strong_count(node) - usize::from(spare)
}

fn address(tensor: &Tensor) -> usize {
    IntrusivePtr::as_ptr(tensor.impl_()).addr()
}

/// # Safety
/// - (alone) What is referred to is there, unchanged, for all of `'a`.
unsafe fn outliving<'a, T>(reference: &T) -> &'a T {
    // SAFETY: (alone).
    unsafe { &*ptr::from_ref(reference) }
}

/// Who may make a strong owner of a tensor out of a weak one.
enum Weak {
    Nobody,
    /// Whoever owns the node at this address.
    OwnersOf(usize),
    Others,
}

#[derive(Default)]
struct Walk<'a> {
    /// How many owners of what has several the walk has met.
    met: HashMap<usize, usize>,
    /// Tensors whose strong owners it has met, by the address of the node that knows them weakly.
    waiting: HashMap<usize, &'a Tensor>,
    /// What is owned by nothing that the walk has not met.
    todo: Vec<Owned<'a>>,
}

impl<'a> Walk<'a> {
    fn meet(&mut self, owned: Owned<'a>) {
        match owned {
            Owned::Node(node) => self.meet_node(node),
            Owned::Tensor(tensor) => {
                if self.is_last(address(tensor), IntrusivePtr::strong_count(tensor.impl_())) {
                    self.settle(tensor);
                }
            }
            Owned::Object(_) => {}
        }
    }

    fn meet_node(&mut self, node: &'a NodePtr) {
        let at = ThinPtr::address(node);
        if self.is_last(at, owners(node)) {
            self.todo.push(Owned::Node(node));
        } else if let Some(tensor) = self.waiting.remove(&at) {
            self.settle(tensor);
        }
    }

    /// Counts an owner; whether it is the last of so many.
    fn is_last(&mut self, address: usize, owners: usize) -> bool {
        if owners == 1 {
            return true;
        }
        let met = self.met.entry(address).or_default();
        *met += 1;
        *met == owners
    }

    /// A tensor whose strong owners the walk has met.
    fn settle(&mut self, tensor: &'a Tensor) {
        match self.weak_owner(tensor) {
            Weak::Nobody => self.todo.push(Owned::Tensor(tensor)),
            Weak::OwnersOf(node) => {
                self.waiting.insert(node, tensor);
            }
            Weak::Others => {}
        }
    }

    /// A leaf is known to its accumulator, and a tensor that keeps its gradient to the hooks of the node that made it.
    fn weak_owner(&self, tensor: &Tensor) -> Weak {
        match (IntrusivePtr::weak_count(tensor.impl_()), variable(tensor)) {
            (0, _) => Weak::Nobody,
            (1, Some(variable)) => self.only_weak_owner(tensor, variable),
            _ => Weak::Others,
        }
    }

    fn only_weak_owner(&self, tensor: &Tensor, variable: &Variable) -> Weak {
        // The one owner that is left must be the tensor, which the walk is yet to enter.
        let left = |node: &NodePtr| {
            let at = ThinPtr::address(node);
            let met = self.met.get(&at).copied().unwrap_or(0);
            if owners(node) == met + 1 { Weak::Nobody } else { Weak::OwnersOf(at) }
        };
        if let Some(node) = variable.accumulator.get() {
            return left(node);
        }
        let state = variable.state.lock();
        match &state.grad_fn {
            Some(node) if node.header().hooks().is_some_and(|hooks| hooks.retains(tensor)) => left(node),
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
            // SAFETY: (alone) nobody but the walk reaches the tensor.
            unsafe {
                (
                    state.grad.as_ref().map(|grad| outliving(grad)),
                    state.grad_fn.as_ref().map(|n| outliving(n)),
                )
            }
        };
        let base = variable.view.get().map(|view| &view.base);
        [grad, base].into_iter().flatten().for_each(|tensor| self.meet(Owned::Tensor(tensor)));
        [node, variable.accumulator.get()].into_iter().flatten().for_each(|node| self.meet_node(node));
    }

    fn enter_node(&mut self, node: &'a NodePtr, visit: &mut dyn FnMut(&dyn Any)) {
        if let Some(hooks) = node.header().hooks() {
            hooks.visit_held(visit);
        }
        node.header().edges().iter().flatten().for_each(|edge| self.meet_node(&edge.node));
        node.owns(&mut |owned| match owned {
            Owned::Object(object) => visit(object),
            // SAFETY: (alone) nobody but the walk reaches the node.
            Owned::Node(node) => self.meet_node(unsafe { outliving(node) }),
            // SAFETY: as above.
            Owned::Tensor(tensor) => self.meet(Owned::Tensor(unsafe { outliving(tensor) })),
        });
    }
}
