//! Functions that users attach to tensors, to nodes and to the saving of tensors.
//!
//! A list of hooks is copied before its hooks run, so that no lock is held while they do.

use super::gradients::Gradients;
use flambeau_core::{IntrusivePtr, Result, TensorImpl, WeakIntrusivePtr, ensure};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Is called with a gradient; a tensor that it returns replaces the gradient.
pub type TensorHook = dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync;

/// Is called with the gradients of a node's outputs before the node runs; what it returns replaces them.
pub type PreHook = dyn Fn(&[Option<Tensor>]) -> Result<Option<Gradients>> + Send + Sync;

/// Is called with the gradients of a node's inputs, then those of its outputs, after the node has run; what it returns replaces
/// the gradients of the inputs.
pub type PostHook = dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Gradients>> + Send + Sync;

/// Is called with a leaf whose gradient has just been accumulated.
pub type PostAccumulateHook = dyn Fn(&Tensor) -> Result<()> + Send + Sync;

/// Tensors with `retain_grad`, each with the number of the output whose gradient it retains.
pub(crate) type Retaining = Vec<(u32, WeakIntrusivePtr<TensorImpl>)>;

/// The hooks of one node, or of one leaf.
#[derive(Default)]
pub(crate) struct NodeHooks(Mutex<Lists>);

#[derive(Default, Clone)]
struct Lists {
    tensor: Vec<(u64, u32, Arc<TensorHook>)>,
    retaining: Retaining,
    pre: Vec<(u64, Arc<PreHook>)>,
    post: Vec<(u64, Arc<PostHook>)>,
    post_accumulate: Vec<(u64, Arc<PostAccumulateHook>)>,
    held: Vec<(u64, HookObject)>,
    /// Whether several nodes share these lists.
    shared: bool,
}

/// An object of the front end, such as a Python function, that a hook owns.
pub type HookObject = Arc<dyn Any + Send + Sync>;

/// Removes a hook. Dropping the handle leaves the hook registered.
#[derive(Clone)]
pub struct HookHandle {
    id: u64,
    hooks: Weak<NodeHooks>,
}

impl HookHandle {
    /// Removes the hook, if it was not removed already.
    pub fn remove(&self) {
        let Some(hooks) = self.hooks.upgrade() else { return };
        // A hook is dropped outside the lock: its destructor is code of the user.
        let mut lists = hooks.0.lock();
        let tensor = take_out(&mut lists.tensor, |hook| hook.0 == self.id);
        let pre = take_out(&mut lists.pre, |hook| hook.0 == self.id);
        let post = take_out(&mut lists.post, |hook| hook.0 == self.id);
        let post_accumulate = take_out(&mut lists.post_accumulate, |hook| hook.0 == self.id);
        let held = take_out(&mut lists.held, |held| held.0 == self.id);
        drop(lists);
        drop((tensor, pre, post, post_accumulate, held));
    }

    /// Registers the object that the hook owns, so that the front end's garbage collector can [visit](crate::exclusive) it.
    pub fn holding(self, object: HookObject) -> Self {
        if let Some(hooks) = self.hooks.upgrade() {
            hooks.0.lock().held.push((self.id, object));
        }
        self
    }
}

fn take_out<T>(list: &mut Vec<T>, is_it: impl FnMut(&T) -> bool) -> Option<T> {
    list.iter().position(is_it).map(|at| list.remove(at))
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl NodeHooks {
    fn add(self: &Arc<Self>, add: impl FnOnce(&mut Lists, u64)) -> HookHandle {
        let id = next_id();
        add(&mut self.0.lock(), id);
        HookHandle { id, hooks: Arc::downgrade(self) }
    }

    pub(crate) fn add_tensor(self: &Arc<Self>, output_nr: u32, hook: Arc<TensorHook>) -> HookHandle {
        self.add(|lists, id| lists.tensor.push((id, output_nr, hook)))
    }

    pub(crate) fn add_pre(self: &Arc<Self>, hook: Arc<PreHook>) -> HookHandle {
        self.add(|lists, id| lists.pre.push((id, hook)))
    }

    pub(crate) fn add_post(self: &Arc<Self>, hook: Arc<PostHook>) -> HookHandle {
        self.add(|lists, id| lists.post.push((id, hook)))
    }

    pub(crate) fn add_post_accumulate(self: &Arc<Self>, hook: Arc<PostAccumulateHook>) -> HookHandle {
        self.add(|lists, id| lists.post_accumulate.push((id, hook)))
    }

    /// From now on the gradient of output `output_nr` is kept in `tensor.grad` too.
    pub(crate) fn retain(&self, output_nr: u32, tensor: WeakIntrusivePtr<TensorImpl>) {
        self.0.lock().retaining.push((output_nr, tensor));
    }

    /// No longer keeps the gradient for `tensor`, which has got another history.
    pub(crate) fn stop_retaining(&self, tensor: &WeakIntrusivePtr<TensorImpl>) {
        self.0.lock().retaining.retain(|(_, other)| !other.ptr_eq(tensor));
    }

    /// Whether `tensor` retains its gradient through these hooks.
    pub(crate) fn retains(&self, tensor: &Tensor) -> bool {
        let weak = IntrusivePtr::downgrade(tensor.impl_());
        self.0.lock().retaining.iter().any(|(_, other)| other.ptr_eq(&weak))
    }

    /// Marks the hooks as shared by another node.
    pub(crate) fn mark_shared(&self) {
        self.0.lock().shared = true;
    }

    /// Visits the objects that the hooks own, if the hooks belong to one node only.
    pub(crate) fn visit_held(&self, visit: &mut dyn FnMut(&dyn Any)) {
        let lists = self.0.lock();
        let held = if lists.shared { &[] } else { &lists.held[..] };
        held.iter().for_each(|(_, object)| visit(&**object));
    }

    /// Removes all hooks, if they belong to one node only.
    pub(crate) fn clear(&self) {
        let mut lists = self.0.lock();
        if !lists.shared {
            let gone = std::mem::take(&mut *lists);
            drop(lists);
            drop(gone);
        }
    }

    /// Runs the tensor hooks on the gradients that have arrived, and returns the tensors that retain theirs.
    ///
    /// # Errors
    /// Those of the hooks, and `Autograd` where one changes the sizes.
    pub(crate) fn run_tensor(&self, grads: &mut Gradients) -> Result<Retaining> {
        let (hooks, retaining) = {
            let lists = self.0.lock();
            (lists.tensor.clone(), lists.retaining.clone())
        };
        for (_, output_nr, hook) in &hooks {
            if let Some(Some(grad)) = grads.get_mut(*output_nr as usize)
                && let Some(other) = hook(grad)?
            {
                ensure!(
                    other.sizes() == grad.sizes(),
                    Autograd,
                    "hook '{output_nr}' has changed the size of value: expected {:?} but got {:?}",
                    grad.sizes(),
                    other.sizes()
                );
                *grad = other;
            }
        }
        Ok(retaining)
    }

    pub(crate) fn run_pre(&self, grads: &mut Gradients) -> Result<()> {
        let hooks = self.0.lock().pre.clone();
        for (_, hook) in &hooks {
            if let Some(other) = hook(grads)? {
                *grads = other;
            }
        }
        Ok(())
    }

    pub(crate) fn has_post(&self) -> bool {
        !self.0.lock().post.is_empty()
    }

    pub(crate) fn run_post(&self, inputs: &mut Gradients, outputs: &Gradients) -> Result<()> {
        let hooks = self.0.lock().post.clone();
        for (_, hook) in &hooks {
            if let Some(other) = hook(inputs, outputs)? {
                *inputs = other;
            }
        }
        Ok(())
    }

    pub(crate) fn run_post_accumulate(&self, leaf: &Tensor) -> Result<()> {
        let hooks = self.0.lock().post_accumulate.clone();
        hooks.iter().try_for_each(|(_, hook)| hook(leaf))
    }
}

/// What a pack hook returned for a tensor, from which the unpack hook restores it.
pub type Packed = Box<dyn Any + Send + Sync>;

/// Is called with a tensor that an operator saves for its backward, and returns what it can be restored from, such as a file name
/// or a copy on another device.
pub type PackHook = dyn Fn(&Tensor) -> Result<Packed> + Send + Sync;

/// Restores a tensor from what the pack hook returned.
pub type UnpackHook = dyn Fn(&(dyn Any + Send + Sync)) -> Result<Tensor> + Send + Sync;

/// A pair of hooks on saving.
#[derive(Clone)]
pub(crate) struct SavingHooks {
    pub(crate) pack: Arc<PackHook>,
    pub(crate) unpack: Arc<UnpackHook>,
}

thread_local! {
    static SAVING: RefCell<Vec<SavingHooks>> = const { RefCell::new(Vec::new()) };
    /// The number of pairs of hooks, plus one while a dual level is open.
    static WATCHING: Cell<u32> = const { Cell::new(0) };
}

/// Whether saving a tensor on this thread takes more than keeping it: hooks are to be called, or its tangent is to be saved too.
#[inline]
pub(crate) fn saving_is_watched() -> bool {
    WATCHING.get() != 0
}

/// Adds one to the count of those who watch what is saved, or subtracts one.
pub(crate) fn watch_saving(begins: bool) {
    // Where the thread is exiting, nothing is saved any more.
    let _ = WATCHING.try_with(|count| {
        let now = count.get();
        count.set(if begins { now + 1 } else { now.saturating_sub(1) });
    });
}

/// Removes the pair of hooks when it is dropped.
#[must_use = "the hooks are in force as long as the guard lives"]
pub struct SavedTensorsHooksGuard(PhantomData<*const ()>);

/// Every tensor that an operator on this thread saves passes through `pack` now and through `unpack` when a backward pass
/// needs it. Of nested pairs only the innermost is called.
pub fn saved_tensors_hooks(
    pack: impl Fn(&Tensor) -> Result<Packed> + Send + Sync + 'static,
    unpack: impl Fn(&(dyn Any + Send + Sync)) -> Result<Tensor> + Send + Sync + 'static,
) -> SavedTensorsHooksGuard {
    let hooks = SavingHooks { pack: Arc::new(pack), unpack: Arc::new(unpack) };
    SAVING.with_borrow_mut(|stack| stack.push(hooks));
    watch_saving(true);
    SavedTensorsHooksGuard(PhantomData)
}

impl Drop for SavedTensorsHooksGuard {
    fn drop(&mut self) {
        // If the thread is exiting, its stack of hooks is destroyed already.
        let gone = SAVING.try_with(|stack| stack.borrow_mut().pop());
        watch_saving(false);
        drop(gone);
    }
}

/// Disables the hooks until it is dropped.
pub(crate) struct NoSavingHooks(Vec<SavingHooks>);

/// Disables the hooks for calls that a kernel makes on its own account: hooks such as those of
/// [`checkpoint`](crate::checkpoint) count the tensors that the user's own calls save. `None` where there are no hooks.
pub(crate) fn without_saving_hooks() -> Option<NoSavingHooks> {
    let hooks = SAVING.take();
    (!hooks.is_empty()).then_some(NoSavingHooks(hooks))
}

impl Drop for NoSavingHooks {
    fn drop(&mut self) {
        // Where the thread is exiting, nothing is saved any more.
        let _ = SAVING.try_with(|stack| stack.replace(std::mem::take(&mut self.0)));
    }
}

/// The hooks in force, if any.
pub(crate) fn saving_hooks() -> Option<SavingHooks> {
    SAVING.with_borrow(|stack| stack.last().cloned())
}
