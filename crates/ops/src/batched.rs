//! Batched tensors, which a function under `vmap` sees: they report the sizes of one example and hold the tensor of all.
//!
//! They have the dispatch key `Batched`, and no elements of their own, so that every call with one goes to a kernel for that key. The crate
//! `flambeau-vmap` has these kernels. What is here is what autograd needs too: the levels that are open on a thread, wrapping and
//! unwrapping, and tensors of several levels.

mod level;
pub(crate) mod physical;
mod print;
mod wrapper;

pub use level::{Below, Level, LevelGuard, Randomness, current_level, levels, open_level};
pub use physical::{
    Wrapper, batched_at_all_levels, innermost, physical_like, rewrap, with_batches_in_front, wrappers,
};
pub use wrapper::{Inside, is_batched, parts, unwrap, wrap, wrap_ordered};
