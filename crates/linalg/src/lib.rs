//! Factorizations and spectral decompositions of dense matrices, on slices, without tensors.
//!
//! Matrices are views of column-major slices ([`MatrixMut`], [`Matrix`]); functions overwrite them as LAPACK's do, in LAPACK's formats:
//! pivots from 1, reflectors below the diagonal with their `tau`, `info`. Large parts of the work are products of matrices, which
//! `flambeau-gemm` splits among threads by sizes alone. So results have the same bits for every number of threads, and a matrix has the
//! same results alone as in a batch.
//!
//! Small matrices of a batch are computed in the lanes of vectors, one matrix in each, by the functions whose names end in `_batch`.
//!
//! Algorithms are written for a [`Field`], with conjugates where complex numbers need them. Singular values are computed in f64, and
//! so should be those eigenvalues of small f32 matrices that are to be correct to the last digit.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod balance;
mod batch;
mod bidiagonal;
mod bidiagonalize;
mod cholesky;
mod columns;
mod divide;
mod eig;
mod eigenvectors;
mod field;
mod hermitian;
mod hessenberg;
mod lanes;
mod ldl;
mod lu;
mod matrix;
mod qr;
mod reflector;
mod rotations;
mod scaling;
mod schur;
mod strips;
mod svd;
#[cfg(test)]
mod tests;
mod triangular;
mod tridiagonal;
mod tridiagonalize;

pub use batch::{
    SingularVectors, batch_length, cholesky_batch, hermitian_batch, householder_product_batch, lu_batch,
    qr_batch, solve_factored_batch, solve_triangular_batch, svd_batch,
};
pub use cholesky::cholesky;
pub use eig::eig;
pub use field::{Field, Real};
pub use hermitian::hermitian;
pub use lanes::{InLanes, SpectralInLanes};
pub use ldl::{ldl, ldl_pivots_are_valid, ldl_solve};
pub use lu::{System, exchange_rows, lu, solve_factored};
pub use matrix::{Matrix, MatrixMut};
pub use qr::{householder_product, multiply_by_q, qr};
pub use scaling::Failure;
pub use svd::svd;
pub use triangular::Triangular;
