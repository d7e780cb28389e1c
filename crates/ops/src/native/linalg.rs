//! Matrix products, factorizations and decompositions, and the operators of linear algebra that are composed of them.

pub mod cholesky;
pub mod combinations;
pub mod cov_corrcoef;
pub mod cross_vecdot;
pub mod det;
pub mod distances;
pub mod eigh;
pub mod einsum;
pub mod inverse;
pub mod kron_trace_block_diag;
pub mod linear;
pub mod lstsq;
pub mod lu;
pub mod matmul;
mod matrices;
pub mod matrix_exp;
pub mod matrix_power;
pub mod multi_dot;
pub mod norms;
pub mod pinv;
pub mod qr;
pub mod solve;
pub mod svd;
pub mod tensorsolve;
pub mod tril_triu;
pub mod vander;
