//! Matrix products, factorizations and decompositions, and the operators of linear algebra that are composed of them.

pub mod combinations;
pub mod cov_corrcoef;
pub mod cross_vecdot;
#[cfg(feature = "linalg")]
pub mod decompositions;
pub mod distances;
pub mod einsum;
pub mod kron_trace_block_diag;
pub mod linear;
pub mod matmul;
#[cfg_attr(not(feature = "linalg"), allow(dead_code, reason = "most of it is for decompositions"))]
mod matrices;
pub mod matrix_exp;
mod matrix_exp_lanes;
pub mod matrix_functions;
pub mod matrix_power;
pub mod multi_dot;
pub mod norms;
pub mod pinv;
pub mod tensorsolve;
pub mod tril_triu;
pub mod vander;
