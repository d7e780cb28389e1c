//! The C interface: the table of functions of `flambeau.h`, and [`load_library`], which runs a plug-in that was written against it.
//!
//! A program that links this crate and is not a plug-in calls `flambeau_api(FB_VERSION)` for the table.
//!
//! | module | holds |
//! |---|---|
//! | `entry` | what surrounds every function: panics are caught, errors become handles |
//! | `handles` | tensors, operators and errors as pointers |
//! | `values` | arguments and results as `FbValue`, passed and given |
//! | `tensors`, `elements`, `dlpack` | functions of tensors and of their elements |
//! | `operators`, `kernels`, `derivatives` | calls, and what plug-ins register |
//! | `runtime` | the thread pool, messages |
//! | `table`, `plugins` | the table, and the libraries that were loaded |
#![expect(unsafe_code, reason = "C calls it")]

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod derivatives;
pub mod dlpack;
mod elements;
mod entry;
mod handles;
mod kernels;
mod operators;
mod plugins;
mod runtime;
mod table;
mod tensors;
mod values;

pub use plugins::{load_library, loaded_libraries};
pub use table::{TABLE, flambeau_api};
