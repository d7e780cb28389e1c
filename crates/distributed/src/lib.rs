//! Training on several processes: stores, process groups and their collectives, data parallel training, sharded optimizers.
//!
//! A module uses modules of the rows above it in this table.
//!
//! | module | holds |
//! |---|---|
//! | `wire` | numbers and bytes in messages |
//! | [`store`] | keys and values that all processes see: in one process, over TCP, in a file |
//! | [`rendezvous`] | what a launcher tells a process: its rank, the number of ranks, the address of rank 0 |
//! | `bytes`, [`reduce`] | elements of tensors as bytes; sums over ranks in a fixed binary tree |
//! | `transport` | messages between ranks: what an engine is, and what has arrived |
//! | [`engine`] | engines that move them: over TCP, by MPI, and those of other crates |
//! | [`work`] | the handle of a collective that runs in the background |
//! | `group` | [`ProcessGroup`]: collectives, messages between two ranks, subgroups |
//! | [`functional`], [`sync_batch_norm`] | collectives with derivatives; batch normalization over ranks |
//! | [`data_parallel`], [`sampler`], [`zero`] | gradients averaged over ranks; the examples of a rank; sharded state of optimizers |
//! | [`checkpoint`] | checkpoints that all ranks write, and any number of ranks reads |
//! | `launch` | [`launch()`]: the ranks of a job on this machine |
//! | [`simulate`] | what a step costs on more ranks than there are, in virtual time |
//!
//! # Which bits a collective computes
//!
//! A reduction adds the tensors of the ranks in a fixed binary tree, `(r0 + r1) + (r2 + r3)`, whichever message arrives first. So every
//! rank and every run gets the same bits. A rank that computes several micro-batches adds their gradients in the same tree
//! ([`data_parallel`]), and then 1, 2 and 4 ranks compute the same bits for one global batch.
//!
//! # Errors instead of waiting forever
//!
//! Each message has the signature of its call: operation, number, dtype, sizes. A rank that receives the message of another call returns
//! an error that names both. A rank that ends closes its connections, which its peers see at once; one that is stopped is named when the
//! timeout of the group has passed. An error in a collective breaks the group: it is sent to the other ranks, and each later call returns
//! it at once.
//!
//! ```
//! use flambeau_distributed::{ProcessGroup, ReduceOp};
//! use flambeau_ops::Tensor;
//! let group = ProcessGroup::single()?;
//! let x = Tensor::from([1.0f32, 2.0]);
//! group.all_reduce(&x, ReduceOp::Sum)?.wait()?;
//! assert_eq!((group.rank(), group.size(), x.to_vec::<f32>()?), (0, 1, vec![1.0, 2.0]));
//! # Ok::<(), flambeau_core::Error>(())
//! ```

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod bytes;
pub mod checkpoint;
pub mod data_parallel;
pub mod engine;
pub mod functional;
mod group;
mod launch;
pub mod reduce;
pub mod rendezvous;
pub mod sampler;
pub mod simulate;
pub mod store;
pub mod sync_batch_norm;
mod transport;
mod wire;
pub mod work;
pub mod zero;

pub use data_parallel::{CommHook, DataParallelOptions, DistributedDataParallel, Reducer};
pub use group::{ProcessGroup, ProcessGroupOptions};
pub use launch::launch;
pub use reduce::ReduceOp;
pub use rendezvous::Environment;
pub use sampler::DistributedSampler;
pub use store::{FileStore, HashStore, PrefixStore, Store, TcpStore};
pub use sync_batch_norm::SyncBatchNorm;
pub use work::Work;
pub use zero::ZeroRedundancyOptimizer;
