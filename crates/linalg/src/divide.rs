//! Divide and conquer for tridiagonal and bidiagonal matrices: a matrix is cut into two, and the decompositions of both parts are
//! joined by the roots of a secular equation and by products of matrices.
//!
//! Cuppen, "A divide and conquer method for the symmetric tridiagonal eigenproblem" (1981); Gu and Eisenstat, "A divide-and-conquer
//! algorithm for the symmetric tridiagonal eigenproblem" and "... for the bidiagonal SVD" (1995).

pub(crate) mod deflation;
pub(crate) mod eigen;
pub(crate) mod secular;
pub(crate) mod singular;

/// Rows up to which a matrix is not cut: QR iteration is faster.
pub(crate) const LEAF: usize = 32;
