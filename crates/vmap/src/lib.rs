//! `vmap`: applies a function of one example to a batch. The function runs once. Its arguments are batched tensors, which report the sizes
//! of one example, and every operator that it calls computes all examples at once by a rule.
//!
//! A module uses modules of the rows above it in this table, and none of its own row or below.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | 1 | `level` | the levels that are open on a thread: their batch sizes and what random operators do in them |
//! | 2 | `batched` | batched tensors: a tensor, which of its dimensions is the batch, and the level |
//! | 3 | `physical` | batched tensors of several levels and the tensor below them, for autograd |
//! | | `print` | how a batched tensor is printed |
//! | | `plan` | what is known of an operator: the kind of its rule, and which arguments name dimensions |
//! | 4 | `batch` | a call of an operator at one level, as rules see it |
//! | 5 | `kinds` | rules that serve many operators |
//! | 6 | `rules` | rules of single operators |
//! | 7 | `fallback` | the boxed kernel for the key `Batched` |
//! | 8 | `transform` | [`vmap`] itself |
//!
//! A level that is open includes the dispatch key `Batched` on its thread, so that random operators are seen even where no argument is
//! batched. Other threads, and this thread outside of levels, pay nothing. Batched tensors have the key themselves. It is above
//! `Autograd`: a rule calls operators on the tensors below, and these calls record history as any others.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod batch;
mod batched;
mod fallback;
mod generated;
mod kinds;
mod level;
mod physical;
mod plan;
mod print;
mod rules;
mod transform;

pub use batch::Batch;
pub use batched::{is_batched, unwrap, wrap};
pub use fallback::rule;
pub use kinds::loops::{loops, set_warning};
pub use level::{Level, LevelGuard, Randomness, current_level, levels};
pub use physical::{Wrapper, batched_at_all_levels, innermost, physical_like, rewrap, wrappers};
pub use plan::{Kind, kind_of};
pub use transform::{batch_size, out_of_level, vmap};
