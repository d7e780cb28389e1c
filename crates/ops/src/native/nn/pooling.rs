//! Pooling over one, two and three dimensions: the maximum or the mean of each window, and the gradients.

mod adaptive_pool;
mod avg_pool;
mod channel_strips;
mod channels;
mod guarded;
mod max_lanes;
mod max_pool;
mod max_pool_2x2;
mod max_unpool;
mod max_window;
mod mean;
mod mean_lanes;
mod mean_window;
mod one_dim;
mod running_max;
mod spec;
mod windows;

pub use adaptive_pool::*;
pub use avg_pool::*;
pub use max_pool::*;
pub use max_unpool::*;
pub use one_dim::*;

pub(in crate::native) use channels::{PoolElement, wide};
