//! Data parallel training: gradients are averaged over ranks, in buckets, while the backward pass still runs.

mod buckets;
mod comm_hook;
mod profile;
mod reached;
mod reducer;

pub use comm_hook::{CommHook, GradBucket, Pending};
pub use profile::profile;
pub use reducer::Reducer;

use crate::group::ProcessGroup;
use flambeau_autograd::Autograd;
use flambeau_core::{Result, ensure};
use flambeau_nn::{Forward, Module, Visitor, VisitorMut};
use flambeau_ops::Tensor;
use std::sync::Arc;

/// How gradients are averaged.
#[derive(Debug, Clone)]
pub struct DataParallelOptions {
    /// How many bytes of gradients a bucket has.
    pub bucket_bytes: usize,
    /// The same of the bucket that is full first, which should be sent soon.
    pub first_bucket_bytes: usize,
    /// Adds the gradients of micro-batches (the passes under [`no_sync`](DistributedDataParallel::no_sync), and the one after them) in the
    /// tree in which those of ranks are added, and divides by the number of micro-batches of all ranks. If each rank has the same power of
    /// two of them, 1, 2 and 4 ranks compute the same bits for one global batch. The losses are not to be scaled then.
    pub deterministic_micro_batches: bool,
    /// Lets `grad` of a parameter share the memory of its bucket, which saves a copy.
    pub gradient_as_bucket_view: bool,
    /// Searches the graph of the outputs for parameters that the backward pass will not reach. Their gradients count as zeros, and a
    /// parameter that no rank reaches keeps the gradient that it had. Otherwise such a parameter is an error in the next forward pass.
    pub find_unused_parameters: bool,
    /// How buckets are averaged, such as [`CommHook::compressed`]; with `None` by an all-reduce of the gradients as they are.
    pub hook: Option<CommHook>,
}

impl Default for DataParallelOptions {
    /// Buckets of 25 MiB, the first of 1 MiB.
    fn default() -> Self {
        DataParallelOptions {
            bucket_bytes: 25 << 20,
            first_bucket_bytes: 1 << 20,
            deterministic_micro_batches: false,
            gradient_as_bucket_view: true,
            find_unused_parameters: false,
            hook: None,
        }
    }
}

/// A model whose gradients are averaged over the ranks of a group. PyTorch's `DistributedDataParallel`.
///
/// ```
/// use flambeau_autograd::Autograd;
/// use flambeau_distributed::{DistributedDataParallel, ProcessGroup};
/// use flambeau_nn::{Forward, Linear, Module};
/// use flambeau_ops::Tensor;
/// let model = DistributedDataParallel::new(Linear::new(2, 1)?, ProcessGroup::single()?, Default::default())?;
/// model.forward(&Tensor::from([[1.0f32, 2.0]]))?.sum()?.backward()?;
/// assert!(model.parameters().iter().all(|p| p.grad().is_some()));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub struct DistributedDataParallel<M> {
    module: M,
    group: ProcessGroup,
    reducer: Arc<Reducer>,
}

impl<M: Module> DistributedDataParallel<M> {
    /// Copies the parameters and buffers of rank 0 to all ranks, and averages gradients from then on.
    ///
    /// # Errors
    /// `InvalidArgument` where the ranks have different models, and those of the group.
    pub fn new(module: M, group: ProcessGroup, options: DataParallelOptions) -> Result<Self> {
        let state = module.state_dict()?;
        let named: Vec<(String, Tensor)> = state.into_iter().collect();
        synchronize(&group, &named)?;
        let params: Vec<Tensor> = module.parameters().into_iter().filter(Tensor::requires_grad).collect();
        let reducer = Arc::new(Reducer::new(&params, group.clone(), options)?);
        Ok(DistributedDataParallel { module, group, reducer })
    }

    /// The model.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// The group.
    pub fn group(&self) -> &ProcessGroup {
        &self.group
    }

    /// Until the result is dropped, backward passes add to the gradients of this rank alone.
    pub fn no_sync(&self) -> NoSync {
        self.reducer.set_sync(false);
        NoSync(self.reducer.clone())
    }

    /// Says that a forward pass begins: copies the buffers of rank 0 to all ranks where it will be followed by a synchronization.
    ///
    /// # Errors
    /// `Autograd` where the backward pass before did not reach all parameters.
    pub fn prepare(&self) -> Result<()> {
        self.reducer.prepare()?;
        if !self.reducer.is_sync() {
            return Ok(());
        }
        let buffers = self.module.named_buffers();
        let sent: Result<Vec<_>> =
            buffers.iter().map(|(_, buffer)| self.group.broadcast(&buffer.detach()?, 0)).collect();
        sent?.iter().try_for_each(crate::work::Work::wait)
    }

    /// Says that a forward pass has ended, with these outputs: searches for parameters that the backward pass will not reach, if the options
    /// request that. [`Forward::forward`] calls it; programs that call the module itself do.
    ///
    /// # Errors
    /// Those of the group.
    pub fn find_unused(&self, outputs: &[Tensor]) -> Result<()> {
        self.reducer.find_unused(outputs)
    }
}

/// Ends [`DistributedDataParallel::no_sync`] when it is dropped.
#[must_use = "gradients are averaged again when this is dropped"]
pub struct NoSync(Arc<Reducer>);

impl Drop for NoSync {
    fn drop(&mut self) {
        self.0.set_sync(true);
    }
}

impl<M: Module> Module for DistributedDataParallel<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("module", &self.module);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        visitor.field("module", &mut self.module);
    }
}

impl<M: Forward> Forward for DistributedDataParallel<M> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.prepare()?;
        let output = self.module.forward(input)?;
        self.find_unused(std::slice::from_ref(&output))?;
        Ok(output)
    }
}

/// Copies tensors of rank 0 to all ranks, which must have tensors of the same names, dtypes and sizes.
///
/// # Errors
/// `InvalidArgument` naming the first difference.
pub fn synchronize(group: &ProcessGroup, named: &[(String, Tensor)]) -> Result<()> {
    let describe =
        |(name, tensor): &(String, Tensor)| format!("{name}: {} {:?}", tensor.dtype(), tensor.sizes());
    let mine: Vec<String> = named.iter().map(describe).collect();
    let first = group.broadcast_bytes(mine.join("\n").as_bytes(), 0)?;
    let first = String::from_utf8_lossy(&first).into_owned();
    let first: Vec<&str> = first.lines().collect();
    let absent = "none";
    for i in 0..first.len().max(mine.len()) {
        let (expected, got) =
            (first.get(i).copied().unwrap_or(absent), mine.get(i).map_or(absent, String::as_str));
        ensure!(
            expected == got,
            InvalidArgument("DistributedDataParallel", "module"),
            "expected the model of rank 0, whose tensor {i} is {expected:?}, but rank {} has {got:?}",
            group.rank()
        );
    }
    let sent: Result<Vec<_>> =
        named.iter().map(|(_, tensor)| group.broadcast(&tensor.detach()?, 0)).collect();
    sent?.iter().try_for_each(crate::work::Work::wait)
}
