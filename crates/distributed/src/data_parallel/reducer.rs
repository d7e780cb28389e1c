//! Averages gradients over ranks as soon as a backward pass has computed them. PyTorch's `Reducer`.

use super::DataParallelOptions;
use super::buckets::{Bucket, buckets};
use crate::bytes;
use crate::group::ProcessGroup;
use crate::reduce::{ReduceOp, Tree};
use flambeau_autograd::{Autograd, HookHandle, no_grad};
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::{Tensor, ops};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Averages the gradients of parameters over the ranks of a group, until it is dropped.
///
/// A hook of each parameter copies its gradient to a bucket. A full bucket is sent at once, while the backward pass goes on, and the hook
/// of the last gradient waits for all of them. So `grad` has the averages when `backward` returns.
pub struct Reducer {
    shared: Arc<Shared>,
    hooks: Vec<HookHandle>,
}

struct Shared {
    group: ProcessGroup,
    options: DataParallelOptions,
    /// In which bucket each parameter is, and at which index.
    slots: Vec<(usize, usize)>,
    state: Mutex<State>,
}

struct State {
    buckets: Vec<Bucket>,
    /// The parameters whose gradients have arrived in this pass.
    leaves: Vec<Option<Tensor>>,
    /// Gradients of the micro-batches before, of each parameter, and how many micro-batches there were.
    trees: Vec<Tree>,
    micro_batches: Vec<usize>,
    /// How many buckets have been sent: all ranks send them in the same order.
    sent: usize,
    sync: bool,
}

impl Reducer {
    /// Averages the gradients of these parameters; all ranks give the same ones in the same order.
    ///
    /// # Errors
    /// `InvalidArgument` without parameters, `Autograd` for tensors that are no leaves or require no gradient, `Device` for tensors that
    /// are not on the host.
    pub fn new(params: &[Tensor], group: ProcessGroup, options: DataParallelOptions) -> Result<Self> {
        ensure!(
            !params.is_empty(),
            InvalidArgument("DistributedDataParallel", "module"),
            "expected a module with parameters that require gradients but got none"
        );
        params.iter().try_for_each(|param| bytes::check("DistributedDataParallel", "module", param))?;
        let buckets = buckets(params, &options)?;
        let mut slots = vec![(0, 0); params.len()];
        for (number, bucket) in buckets.iter().enumerate() {
            bucket.params.iter().enumerate().for_each(|(index, param)| slots[*param] = (number, index));
        }
        let state = State {
            buckets,
            leaves: vec![None; params.len()],
            trees: params.iter().map(|_| Tree::default()).collect(),
            micro_batches: vec![0; params.len()],
            sent: 0,
            sync: true,
        };
        let shared = Arc::new(Shared { group, options, slots, state: Mutex::new(state) });
        let hook = |(number, param): (usize, &Tensor)| {
            let shared: Weak<Shared> = Arc::downgrade(&shared);
            param.register_post_accumulate_grad_hook(move |leaf| match shared.upgrade() {
                Some(shared) => shared.arrived(number, leaf),
                None => Ok(()),
            })
        };
        let hooks: Result<Vec<HookHandle>> = params.iter().enumerate().map(hook).collect();
        Ok(Reducer { hooks: hooks?, shared })
    }

    /// Whether backward passes average gradients; otherwise they add to those of this rank.
    pub fn set_sync(&self, sync: bool) {
        self.shared.state.lock().sync = sync;
    }

    /// Whether backward passes average gradients.
    pub fn is_sync(&self) -> bool {
        self.shared.state.lock().sync
    }

    /// Says that a forward pass begins.
    ///
    /// # Errors
    /// `Autograd` where the backward pass before has not reached all parameters: the other ranks may wait for their gradients.
    pub fn prepare(&self) -> Result<()> {
        let mut state = self.shared.state.lock();
        let missing: Vec<usize> = (0..state.leaves.len()).filter(|i| state.leaves[*i].is_none()).collect();
        if missing.len() == state.leaves.len() {
            return Ok(());
        }
        state.reset();
        bail!(
            Autograd("DistributedDataParallel"),
            "expected the backward pass before to compute the gradients of all {} parameters but it has not reached those with the \
             numbers {missing:?}; parameters that do not take part in the loss are not to require gradients",
            state.leaves.len()
        )
    }

    /// The bytes of each bucket.
    pub fn bucket_bytes(&self) -> Vec<usize> {
        self.shared.state.lock().buckets.iter().map(|bucket| bucket.flat.nbytes()).collect()
    }
}

impl Drop for Reducer {
    fn drop(&mut self) {
        self.hooks.iter().for_each(HookHandle::remove);
    }
}

impl State {
    fn reset(&mut self) {
        self.buckets.iter_mut().for_each(Bucket::reset);
        self.leaves.iter_mut().for_each(|leaf| *leaf = None);
        self.trees.iter_mut().for_each(|tree| *tree = Tree::default());
        self.micro_batches.iter_mut().for_each(|count| *count = 0);
        self.sent = 0;
    }
}

impl Shared {
    /// Is called when the gradient of a parameter has been accumulated.
    fn arrived(&self, number: usize, leaf: &Tensor) -> Result<()> {
        let Some(grad) = leaf.grad() else { return Ok(()) };
        let _unrecorded = no_grad();
        let mut state = self.state.lock();
        let state = &mut *state;
        let grad = match self.options.deterministic_micro_batches {
            false if !state.sync => return Ok(()),
            false => grad,
            true => match Self::micro_batch(state, number, leaf, grad)? {
                Some(sum) => sum,
                None => return Ok(()),
            },
        };
        ensure!(
            state.leaves[number].is_none(),
            Autograd("DistributedDataParallel"),
            "expected one gradient of parameter {number} in a backward pass but got a second one: passes that add to each other, but for \
             the last, are to run under no_sync"
        );
        state.leaves[number] = Some(leaf.clone());
        let (bucket, index) = self.slots[number];
        let bucket = &mut state.buckets[bucket];
        let view = &bucket.views[index];
        if !(grad.is_same(view) || shares_memory(&grad, view)) {
            view.copy_(&grad)?;
        }
        bucket.pending -= 1;
        self.send_full(state)?;
        if state.sent == state.buckets.len() { self.finish(state) } else { Ok(()) }
    }

    /// Adds the gradient of a micro-batch to the tree; the sum if it was the last one.
    fn micro_batch(state: &mut State, number: usize, leaf: &Tensor, grad: Tensor) -> Result<Option<Tensor>> {
        state.micro_batches[number] += 1;
        let tree = &mut state.trees[number];
        tree.push(grad, Tensor::add)?;
        leaf.set_grad(None)?;
        if state.sync { tree.finish(Tensor::add) } else { Ok(None) }
    }

    /// Sends the buckets that are full, in their order.
    fn send_full(&self, state: &mut State) -> Result<()> {
        while let Some(bucket) = state.buckets.get_mut(state.sent).filter(|bucket| bucket.pending == 0) {
            let sent = match self.options.compression {
                Some(dtype) => bucket.flat.to_dtype(dtype)?,
                None => bucket.flat.clone(),
            };
            let op = if self.options.deterministic_micro_batches { ReduceOp::Sum } else { ReduceOp::Avg };
            let work = self.group.all_reduce(&sent, op)?;
            bucket.sent = Some((sent, work));
            state.sent += 1;
        }
        Ok(())
    }

    /// Waits for all buckets, and gives the parameters their averages.
    fn finish(&self, state: &mut State) -> Result<()> {
        let outcome = self.receive(state);
        state.reset();
        outcome
    }

    fn receive(&self, state: &mut State) -> Result<()> {
        let micro_batches = state.micro_batches.iter().max().copied().unwrap_or(0).max(1);
        let count = (self.group.size() * micro_batches) as i64;
        for bucket in &mut state.buckets {
            let Some((sent, work)) = bucket.sent.take() else { continue };
            work.wait()?;
            if self.options.compression.is_some() {
                bucket.flat.copy_(&sent)?;
            }
            if self.options.deterministic_micro_batches {
                bucket.flat.div_scalar_(count)?;
            }
            for (param, view) in bucket.params.iter().zip(&bucket.views) {
                let Some(leaf) = &state.leaves[*param] else { continue };
                match leaf.grad() {
                    _ if self.options.gradient_as_bucket_view => leaf.set_grad(Some(view))?,
                    Some(grad) => drop(grad.copy_(view)?),
                    None => leaf.set_grad(Some(&ops::clone(view, None)?))?,
                }
            }
        }
        Ok(())
    }
}

/// Whether two tensors are the same elements in memory.
fn shares_memory(a: &Tensor, b: &Tensor) -> bool {
    flambeau_core::storage::Storage::ptr_eq(a.storage(), b.storage())
        && a.storage_offset() == b.storage_offset()
}
