//! Indexing, sorting and searching.

pub(super) mod dim_index;
pub mod gather_scatter;
pub mod index_put;
pub mod index_reduce;
pub mod index_select;
pub mod isin;
pub mod masked_select;
pub mod nonzero;
mod row_major;
pub mod searchsorted;
mod signed_order;
pub mod sort;
mod true_indices;
pub mod unique;
