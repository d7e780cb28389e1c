//! Matrix products, and the operators of linear algebra that are composed of them.

pub mod combinations;
pub mod cov_corrcoef;
pub mod cross_vecdot;
pub mod distances;
pub mod einsum;
pub mod kron_trace_block_diag;
pub mod linear;
pub mod matmul;
pub mod matrix_power;
pub mod multi_dot;
pub mod norms;
pub mod tril_triu;
pub mod vander;
