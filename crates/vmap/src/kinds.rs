//! Rules that serve many operators: one module for each kind.

pub(crate) mod dims;
pub(crate) mod fold;
pub(crate) mod front;
pub(crate) mod loops;
pub(crate) mod pointwise;
pub(crate) mod random;
pub(crate) mod reduction;
pub(crate) mod refused;
