//! `vmap`: applies a function of one example to a batch. The function runs once. Its arguments are batched tensors, which report the sizes
//! of one example, and every operator that it calls computes all examples at once by a rule.
//!
//! A module uses modules of the rows above it in this table, and none of its own row or below.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | 1 | `plan` | what is known of an operator: the kind of its rule, and which arguments name dimensions |
//! | 2 | `batch` | a call of an operator at one level, as rules see it |
//! | 3 | `kinds` | rules that serve many operators |
//! | 4 | `rules` | rules of single operators |
//! | 5 | `fallback` | the boxed kernel for the key `Batched` |
//! | | `transform` | [`vmap`] itself |
//!
//! Batched tensors and levels are in [`flambeau_ops::batched`], since autograd unwraps them too.
//!
//! A level that is open includes the dispatch key `Batched` on its thread, so that random operators are seen even where no argument is
//! batched. Other threads, and this thread outside of levels, pay nothing. Batched tensors have the key themselves. It is above
//! `Autograd`: a rule calls operators on the tensors below, and these calls record history as any others.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod batch;
mod fallback;
mod generated;
mod kinds;
mod plan;
mod rules;
mod transform;

pub use batch::Batch;
pub use fallback::rule;
pub use flambeau_ops::batched::{Level, LevelGuard, Randomness, is_batched, unwrap, wrap};
pub use kinds::loops::{loops, set_warning};
pub use plan::{Kind, kind_of};
pub use transform::{batch_size, out_of_level, vmap};
