//! Matrix products and what is made of them.

pub mod distances;
pub mod einsum;
pub mod linear;
pub mod matmul;
pub mod matrix_norms;
pub mod products;
pub mod tril_triu;
