//! Three operators, declared in `native_functions.yaml` and `derivatives.yaml` of this crate as the library's own are in its files.
//!
//! It uses the public API only, and nothing in the library knows of it.

pub mod formulas;
pub mod kernels;

/// The operators as functions and statics.
pub mod ops {
    include!(concat!(env!("OUT_DIR"), "/operators.rs"));
}
