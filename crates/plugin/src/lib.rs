//! Plug-ins in Rust: operators, kernels and derivatives in a library that is loaded at run time, and links nothing of Flambeau.
//!
//! A plug-in is a `cdylib` with [`plugin!`]`(start)`, where `start` defines operators. Everything is reached through the table that the
//! library gives at that time: see `flambeau.h`, which explains what each function does. A function that the library does not have yet,
//! because it is older than this crate, is an error.
//!
//! | module | holds |
//! |---|---|
//! | [`abi`] | the declarations of `flambeau.h` |
//! | `table` | the table that this plug-in was given |
//! | `error`, `value`, `tensor`, `elements` | errors, arguments and results, tensors, their elements |
//! | `operator`, `autograd` | operators, kernels, derivatives |
#![expect(unsafe_code, reason = "calls C")]

/// The example of the crate's README, which is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod abi;
mod autograd;
mod elements;
mod error;
mod operator;
mod table;
mod tensor;
mod value;

pub use autograd::{Backward, Recorded};
pub use elements::{Element, Read, Write};
pub use error::{Error, ErrorKind, Result};
pub use operator::{Call, Operator, define, fallback, find};
pub use table::{log, num_threads, parallel_for};
pub use tensor::Tensor;
pub use value::Value;

/// What [`plugin!`] calls.
#[doc(hidden)]
pub use table::start;

/// Exports the function that the library calls when it has loaded the plug-in: `plugin!(start)`, with `fn start() -> Result<()>`.
#[macro_export]
macro_rules! plugin {
    ($start:path) => {
        /// Called by the library that loads this plug-in.
        #[unsafe(no_mangle)]
        pub extern "C" fn flambeau_plugin_init(
            table: *const $crate::abi::FbApi,
        ) -> *mut $crate::abi::FbError {
            $crate::start(table, $start)
        }
    };
}
