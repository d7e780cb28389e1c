//! Averages gradients over ranks as soon as a backward pass has computed them. PyTorch's `Reducer`.

use super::buckets::{Bucket, buckets};
use super::comm_hook::{GradBucket, all_reduce};
use super::{CommHook, DataParallelOptions, reached};
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
    params: Vec<Tensor>,
    /// In which bucket each parameter is, and at which index.
    slots: Vec<(usize, usize)>,
    state: Mutex<State>,
}

struct State {
    buckets: Vec<Bucket>,
    hook: Option<CommHook>,
    /// The parameters whose gradients have arrived in this pass.
    leaves: Vec<Option<Tensor>>,
    /// Gradients of the micro-batches before, of each parameter, and how many micro-batches there were.
    trees: Vec<Tree>,
    micro_batches: Vec<usize>,
    /// How many buckets have been sent: all ranks send them in the same order.
    sent: usize,
    /// Which parameters have got a gradient from this rank since the last synchronization.
    used: Vec<bool>,
    sync: bool,
}

impl Reducer {
    /// Averages the gradients of these parameters; all ranks give the same ones in the same order.
    ///
    /// # Errors
    /// `InvalidArgument` without parameters, `Autograd` for tensors that are no leaves or require no gradient, `Device` for tensors
    /// without elements.
    pub fn new(params: &[Tensor], group: ProcessGroup, options: DataParallelOptions) -> Result<Self> {
        ensure!(
            !params.is_empty(),
            InvalidArgument("DistributedDataParallel", "module"),
            "expected a module with parameters that require gradients but got none"
        );
        params.iter().try_for_each(|param| bytes::check("DistributedDataParallel", "module", param))?;
        ensure!(
            !options.deterministic_micro_batches
                || !(options.find_unused_parameters || options.hook.is_some()),
            InvalidArgument("DistributedDataParallel", "deterministic"),
            "expected deterministic micro-batches without find_unused_parameters and hooks, with which sums have other bits"
        );
        let buckets = buckets(params, &options)?;
        let mut slots = vec![(0, 0); params.len()];
        for (number, bucket) in buckets.iter().enumerate() {
            bucket.params.iter().enumerate().for_each(|(index, param)| slots[*param] = (number, index));
        }
        let state = State {
            buckets,
            hook: options.hook.clone(),
            leaves: vec![None; params.len()],
            trees: params.iter().map(|_| Tree::default()).collect(),
            micro_batches: vec![0; params.len()],
            sent: 0,
            used: vec![false; params.len()],
            sync: true,
        };
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { group, options, params: params.to_vec(), slots, state });
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

    /// Averages buckets by a hook from now on, or by an all-reduce without one.
    ///
    /// # Errors
    /// `InvalidArgument` with deterministic micro-batches, whose bits a hook would change.
    pub fn set_hook(&self, hook: Option<CommHook>) -> Result<()> {
        ensure!(
            !self.shared.options.deterministic_micro_batches,
            InvalidArgument("register_comm_hook", "hook"),
            "expected no hook, with which the sums of deterministic micro-batches have other bits"
        );
        self.shared.state.lock().hook = hook;
        Ok(())
    }

    /// Says that a forward pass has ended with these outputs: where the options request it, parameters from which they are not computed
    /// count as having a gradient of zeros in the backward pass that follows.
    ///
    /// # Errors
    /// Those of the group.
    pub fn find_unused(&self, outputs: &[Tensor]) -> Result<()> {
        if !self.shared.options.find_unused_parameters || !self.is_sync() {
            return Ok(());
        }
        let nodes = reached::nodes(outputs)?;
        let mut unused = Vec::new();
        for (number, param) in self.shared.params.iter().enumerate() {
            if !reached::accumulator(param)?.is_some_and(|node| nodes.contains(&node)) {
                unused.push(number);
            }
        }
        self.shared.skip(&unused)
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
        if !state.leaves.iter().zip(&state.used).any(|(leaf, used)| leaf.is_some() && *used) {
            // A forward pass without a backward pass: only parameters that it does not use were counted.
            state.reset();
            return Ok(());
        }
        state.reset();
        bail!(
            Autograd("DistributedDataParallel"),
            "expected the backward pass before to compute the gradients of all {} parameters but it has not reached those with the \
             numbers {missing:?}; parameters that do not take part in the loss are not to require gradients, unless \
             find_unused_parameters is set",
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
        state.used[number] = true;
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
        self.fill(state, number, leaf, Some(&grad))?;
        self.send_full(state)?;
        if state.sent == state.buckets.len() { self.finish(state) } else { Ok(()) }
    }

    /// Fills the parts of parameters that get no gradient in this pass.
    fn skip(&self, unused: &[usize]) -> Result<()> {
        let _unrecorded = no_grad();
        let mut state = self.state.lock();
        let state = &mut *state;
        for number in unused {
            let param = &self.params[*number];
            // One that it has, of passes before, is a part of the sum to which other ranks may add.
            self.fill(state, *number, param, param.grad().as_ref())?;
        }
        self.send_full(state)?;
        if state.sent == state.buckets.len() { self.finish(state) } else { Ok(()) }
    }

    /// Copies a gradient to its bucket, or zeros.
    fn fill(&self, state: &mut State, number: usize, leaf: &Tensor, grad: Option<&Tensor>) -> Result<()> {
        state.leaves[number] = Some(leaf.clone());
        let (bucket, index) = self.slots[number];
        let bucket = &mut state.buckets[bucket];
        let view = &bucket.views[index];
        match grad {
            None => drop(view.zero_()?),
            Some(grad) if grad.is_same(view) || shares_memory(grad, view) => {}
            Some(grad) => drop(view.copy_(grad)?),
        }
        bucket.pending -= 1;
        Ok(())
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
        while state.buckets.get(state.sent).is_some_and(|bucket| bucket.pending == 0) {
            let pending = match &state.hook {
                Some(hook) => hook.call(&self.group, &self.grad_bucket(state))?,
                None => {
                    let deterministic = self.options.deterministic_micro_batches;
                    let op = if deterministic { ReduceOp::Sum } else { ReduceOp::Avg };
                    all_reduce(&self.group, state.buckets[state.sent].flat.clone(), op)?
                }
            };
            state.buckets[state.sent].sent = Some(pending);
            state.sent += 1;
        }
        Ok(())
    }

    /// The bucket that is sent next, as a hook gets it.
    fn grad_bucket(&self, state: &State) -> GradBucket {
        let bucket = &state.buckets[state.sent];
        GradBucket {
            index: state.sent,
            is_last: state.sent + 1 == state.buckets.len(),
            buffer: bucket.flat.clone(),
            gradients: bucket.views.clone(),
            parameters: bucket.params.iter().map(|param| self.params[*param].clone()).collect(),
        }
    }

    /// Waits for all buckets, and gives the parameters their averages.
    fn finish(&self, state: &mut State) -> Result<()> {
        let outcome = self.receive(state);
        state.reset();
        state.used.iter_mut().for_each(|used| *used = false);
        outcome
    }

    /// Which parameters any rank has got a gradient for.
    fn used_anywhere(&self, state: &State) -> Result<Vec<bool>> {
        if !self.options.find_unused_parameters {
            return Ok(vec![true; state.used.len()]);
        }
        let used: Vec<u8> = state.used.iter().map(|used| u8::from(*used)).collect();
        let used = Tensor::from_vec(used, &[state.used.len() as i64])?;
        self.group.all_reduce(&used, ReduceOp::Max)?.wait()?;
        Ok(used.to_vec::<u8>()?.iter().map(|used| *used != 0).collect())
    }

    fn receive(&self, state: &mut State) -> Result<()> {
        let micro_batches = state.micro_batches.iter().max().copied().unwrap_or(0).max(1);
        let count = (self.group.size() * micro_batches) as i64;
        let used = self.used_anywhere(state)?;
        for bucket in &mut state.buckets {
            let Some(pending) = bucket.sent.take() else { continue };
            let average = pending()?;
            if !shares_memory(&average, &bucket.flat) {
                bucket.flat.copy_(&average)?;
            }
            if self.options.deterministic_micro_batches {
                bucket.flat.div_scalar_(count)?;
            }
            for (param, view) in bucket.params.iter().zip(&bucket.views) {
                let Some(leaf) = state.leaves[*param].as_ref().filter(|_| used[*param]) else { continue };
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
