//! Factorizations and decompositions, and what is computed from them by Rust calls: the operators that need the crate `flambeau-linalg`,
//! and so the feature `linalg`.

pub mod cholesky;
pub mod det;
pub mod eig;
pub mod eigh;
pub mod inverse;
pub mod ldl;
pub mod lstsq;
pub mod lu;
pub mod qr;
pub mod solve;
pub mod svd;

use super::matrices::NOT_FINITE;
use flambeau_linalg::Failure;

/// What `info` says of a decomposition by iteration.
fn info_of(result: Result<(), Failure>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(Failure::NotFinite) => NOT_FINITE,
        Err(Failure::NotConverged(count)) => count as i32,
    }
}
