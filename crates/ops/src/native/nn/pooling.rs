//! Pooling over two and three dimensions: the greatest or the mean of each window, and the gradients.

mod adaptive;
mod average;
mod greatest;
mod guarded;
mod max;
mod mean;
mod planes;
mod spec;
mod squares;
mod unpool;
mod windows;

pub use adaptive::*;
pub use average::*;
pub use max::*;
pub use unpool::*;

pub(in crate::native) use planes::Pooled;
