//! Data loading: data sets, the order of their examples, and a loader that makes batches on a thread.

mod batches;
mod collate;
mod dataset;
mod loader;
mod sampler;

pub use batches::Batches;
pub use collate::Collate;
pub use dataset::{Dataset, Subset, TensorDataset};
pub use loader::{DataLoader, Position};
pub use sampler::{RandomSampler, Sampler, SequentialSampler};
