//! Operators that create tensors from sizes or from other tensors, and copies.

pub mod arange_linspace;
pub mod copy;
pub mod diag;
pub mod empty_full;
pub mod meshgrid;
pub mod to_contiguous;
pub mod tril_triu_indices;
pub mod window_functions;
