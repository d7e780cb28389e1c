//! Operators that read and write elements by index, sort them or search among them.

pub(super) mod dim_index;
pub mod gather_scatter;
pub mod index_put;
pub mod index_select;
pub mod isin_index_reduce;
pub mod nonzero_masked_select;
pub mod searchsorted;
pub mod sort;
pub mod unique;
