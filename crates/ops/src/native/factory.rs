//! Tensors made from sizes, from other tensors, and copies.

pub mod arange_linspace;
pub mod copy;
pub mod diag_meshgrid;
pub mod empty_full;
pub mod to_contiguous;
