//! Hooks that decide how a bucket of gradients is averaged. PyTorch's DDP communication hooks.

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use flambeau_core::{Result, ScalarType};
use flambeau_ops::Tensor;
use std::fmt;
use std::sync::Arc;

/// A bucket whose gradients have all arrived. PyTorch's `GradBucket`.
#[derive(Clone)]
pub struct GradBucket {
    /// The number of the bucket in the order in which buckets are sent.
    pub index: usize,
    /// Whether it is the last one.
    pub is_last: bool,
    /// All gradients one after another. A hook may overwrite it.
    pub buffer: Tensor,
    /// The parts of the buffer that belong to the parameters.
    pub gradients: Vec<Tensor>,
    /// The parameters.
    pub parameters: Vec<Tensor>,
}

/// Waits for the averages of a bucket that was sent, as a tensor like its buffer.
pub type Pending = Box<dyn FnOnce() -> Result<Tensor> + Send>;

/// Sends a bucket, and returns what waits for its averages. All ranks have the same hook.
///
/// ```
/// use flambeau_distributed::data_parallel::CommHook;
/// use flambeau_distributed::{ProcessGroup, ReduceOp};
/// // The bucket is halved before it is summed over two ranks.
/// let hook = CommHook::new(|group, bucket| {
///     let sum = bucket.buffer.mul_scalar(0.5)?;
///     let work = group.all_reduce(&sum, ReduceOp::Sum)?;
///     Ok(Box::new(move || work.wait().map(|()| sum)))
/// });
/// # let _ = hook;
/// ```
#[derive(Clone)]
pub struct CommHook(Arc<Hook>);

type Hook = dyn Fn(&ProcessGroup, &GradBucket) -> Result<Pending> + Send + Sync;

impl CommHook {
    /// The hook that calls a function for each bucket, on the thread of the backward pass.
    pub fn new(hook: impl Fn(&ProcessGroup, &GradBucket) -> Result<Pending> + Send + Sync + 'static) -> Self {
        CommHook(Arc::new(hook))
    }

    /// Sends gradients as numbers of a smaller dtype, such as BF16, and averages these.
    pub fn compressed(dtype: ScalarType) -> Self {
        CommHook::new(move |group, bucket| all_reduce(group, bucket.buffer.to_dtype(dtype)?, ReduceOp::Avg))
    }

    pub(super) fn call(&self, group: &ProcessGroup, bucket: &GradBucket) -> Result<Pending> {
        (self.0)(group, bucket)
    }
}

impl fmt::Debug for CommHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommHook(..)")
    }
}

/// Sends a tensor, which has the reduction afterwards.
pub(super) fn all_reduce(group: &ProcessGroup, sent: Tensor, op: ReduceOp) -> Result<Pending> {
    let work = group.all_reduce(&sent, op)?;
    Ok(Box::new(move || work.wait().map(|()| sent)))
}
