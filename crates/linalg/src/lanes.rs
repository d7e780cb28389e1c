//! Small matrices of a batch, one in each lane of vectors: the same operation is done for as many matrices as there are lanes.
//!
//! A single matrix takes the same code with the other lanes empty, and no lane depends on another. So a matrix has the same bits alone, in
//! a batch, and at each index of one, and numbers that are not finite remain in their matrix.
#![expect(unsafe_code, reason = "enters functions of an instruction set")]

mod cholesky;
mod hestenes;
mod jacobi;
mod lu;
mod number;
mod packed;
mod qr;
mod triangular;

use crate::field::Field;
use crate::scaling::Failure;
use flambeau_core::Complex;
use flambeau_vectorized::{CodegenAnchor, Float, Isa, Kernel, Lanes, dispatch};
use number::{Complexes, Lane, Reals};
use std::marker::PhantomData;

/// Rows and columns up to which a matrix is computed in a lane.
pub(crate) const LARGEST: usize = 16;

/// A computation on the matrices of a batch, written once for all vectors.
trait Algorithm<T> {
    /// Runs it. It is inlined where the instruction set is known, and so must be all that it calls.
    fn run<L: Lane<Element = T>>(self);
}

/// Rows up to which the eigenvalues of a Hermitian matrix are computed in a lane.
pub(crate) const LARGEST_SPECTRAL: usize = 10;

/// An algorithm as a kernel.
struct OnLanes<A, T> {
    algorithm: A,
    element: PhantomData<T>,
}

impl<A, T> CodegenAnchor for OnLanes<A, T> {
    type Anchor = Self;
}

/// An element type of small matrices that are computed in lanes. The functions are those of the crate, for all matrices of a batch; sizes
/// are above 0 and at most `LARGEST`.
pub trait InLanes: Field {
    /// `cholesky`
    #[doc(hidden)]
    fn cholesky(matrices: &mut [Self], n: usize, info: &mut [i32]);
    /// `lu` of square matrices
    #[doc(hidden)]
    fn lu(matrices: &mut [Self], n: usize, pivots: &mut [i32], info: &mut [i32], pivoting: bool);
    /// Systems with triangles of the matrices, or of their transposes or conjugates as `changes` say: for each triangle whether it is
    /// the upper one, and whether its diagonal is taken to be 1.
    #[doc(hidden)]
    fn solve(
        matrices: &[Self],
        n: usize,
        changes: [bool; 2],
        triangles: &[[bool; 2]],
        x: &mut [Self],
        columns: usize,
    );
    /// `qr`
    #[doc(hidden)]
    fn qr(matrices: &mut [Self], sizes: [usize; 2], tau: &mut [Self]);
    /// `householder_product`
    #[doc(hidden)]
    fn householder_product(matrices: &mut [Self], sizes: [usize; 2], tau: &[Self], count: usize);
}

/// Runs an algorithm on the instruction set of the process.
macro_rules! run {
    ($algorithm:expr) => {
        // SAFETY: algorithms have no conditions.
        unsafe { dispatch(OnLanes::<_, Self> { algorithm: $algorithm, element: PhantomData }) }
    };
}

/// An element type that spectral decompositions compute in.
pub trait SpectralInLanes: InLanes<Real = f64> {
    /// Eigenvalues of Hermitian matrices, on the diagonals, and eigenvectors, in no order.
    #[doc(hidden)]
    fn jacobi(matrices: &mut [Self], n: usize, vectors: &mut [Self], results: &mut [Result<(), Failure>]);
    /// Orthogonal columns, whose norms are singular values in no order, and the vectors from the right.
    #[doc(hidden)]
    fn hestenes(
        matrices: &mut [Self],
        sizes: [usize; 2],
        vectors: &mut [Self],
        results: &mut [Result<(), Failure>],
    );
}

macro_rules! in_lanes {
    ($($element:ty: $lane:ident of $part:ty;)*) => {$(
        impl<I: Isa, A: Algorithm<$element>> Kernel<I> for OnLanes<A, $element>
        where
            $part: Lanes<I, Vector: Float<Element = $part>>,
        {
            #[inline(always)]
            unsafe fn run(self) {
                self.algorithm.run::<$lane<<$part as Lanes<I>>::Vector>>();
            }
        }

        impl InLanes for $element {
            fn cholesky(matrices: &mut [Self], n: usize, info: &mut [i32]) {
                run!(cholesky::Cholesky { matrices, n, info });
            }
            fn lu(matrices: &mut [Self], n: usize, pivots: &mut [i32], info: &mut [i32], pivoting: bool) {
                run!(lu::Lu { matrices, n, pivots, info, pivoting });
            }
            fn solve(
                matrices: &[Self],
                n: usize,
                [transposed, conjugated]: [bool; 2],
                triangles: &[[bool; 2]],
                x: &mut [Self],
                columns: usize,
            ) {
                run!(triangular::Solve { matrices, n, transposed, conjugated, triangles, x, columns });
            }
            fn qr(matrices: &mut [Self], sizes: [usize; 2], tau: &mut [Self]) {
                run!(qr::Qr { matrices, sizes, tau });
            }
            fn householder_product(matrices: &mut [Self], sizes: [usize; 2], tau: &[Self], count: usize) {
                run!(qr::HouseholderProduct { matrices, sizes, tau, count });
            }
        }
    )*};
}
in_lanes! {
    f32: Reals of f32;
    f64: Reals of f64;
    Complex<f32>: Complexes of f32;
    Complex<f64>: Complexes of f64;
}

macro_rules! spectral_in_lanes {
    ($($element:ty)*) => {$(
        impl SpectralInLanes for $element {
            fn jacobi(matrices: &mut [Self], n: usize, vectors: &mut [Self], results: &mut [Result<(), Failure>]) {
                run!(jacobi::Jacobi { matrices, n, vectors, results });
            }
            fn hestenes(
                matrices: &mut [Self],
                sizes: [usize; 2],
                vectors: &mut [Self],
                results: &mut [Result<(), Failure>],
            ) {
                run!(hestenes::Hestenes { matrices, sizes, vectors, results });
            }
        }
    )*};
}
spectral_in_lanes!(f64 Complex<f64>);
