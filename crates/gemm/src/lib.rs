//! Matrix products: `C = alpha * A B + beta * C`, for any strides, on raw memory; or, with an addend instead of the old C, a product
//! and the rows of a bias in one pass.
//!
//! One microkernel (`tile`) holds a tile of C in registers while the loop over k runs. It reads A and B unpacked, or packed into
//! panels where that is faster or their layout or type requires it (`pack`). `plan` decides that, and `blocks` has the loops
//! around the microkernel. With AMX, tiles of bf16 have a microkernel of their own (`amx`). The instruction set is an argument
//! ([`Isa`]), which callers mostly set to [`Isa::detected`].
//!
//! Products with a vector (`dot`, `short`, `vector`), of two tall matrices (`tall`), of few long rows (`few_rows`) and of few columns
//! (`few_columns`) have loops of their own, which read their operands once.
//!
//! Products of complex matrices are real ones of twice the size (`complex`).
//!
//! Three functions only transpose: [`transpose_pack`] and [`transpose`] a few rows at a time, [`stream_transposed`] a whole matrix with non-temporal
//! stores.
//!
//! Every element of C is summed in one order, which follows from the shapes, strides, types and instruction set: the
//! number of threads never changes a bit.
//!
//! References: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), for the blocks; Van
//! Zee and van de Geijn, "BLIS" (2015), for the loops around one microkernel.
#![expect(unsafe_code, reason = "operands are raw memory")]

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(target_arch = "x86_64")]
mod amx;
mod blocks;
mod complex;
mod convert;
mod dot;
mod element;
mod few_columns;
mod few_rows;
mod isa;
mod lanes;
mod pack;
mod plan;
mod portable;
mod product;
mod round;
pub mod scratch;
mod short;
mod small;
mod tall;
#[cfg(test)]
mod tests;
mod tile;
mod tiny;
mod transpose_tile;
mod vector;
mod widen;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use complex::{ComplexGemm, complex_gemm, complex_gemm_batch};
use element::{Element, Scalar};
pub use isa::Isa;
pub use scratch::{OutOfMemory, Scratch, SendPtr};
pub use transpose_tile::{TileMatrix, stream_transposed, tile_side};

use flambeau_parallel::parallel_for;

/// An element type that products exist for: f32, f64, bf16, f16, i8, u8, i16, i32, i64.
///
/// bf16 and f16 are summed in f32 and rounded once, at the end. Integers wrap.
pub trait GemmElement: Element<Acc = Self::Scalar> {
    /// The type of `alpha` and `beta`: f32 for half precision, i32 for integers of at most 32 bits, else the type.
    type Scalar: Scalar;

    /// The product, after [`Gemm::oriented`]. Not generic, so that it is compiled in this crate and not in every crate that uses it.
    ///
    /// # Safety
    /// - As [`gemm`].
    #[doc(hidden)]
    unsafe fn multiply(isa: Isa, g: &Gemm<Self>);

    /// # Safety
    /// - As [`transpose_pack`].
    #[doc(hidden)]
    unsafe fn transpose_pack(isa: Isa, rows: &StridedRows<Self>, to: *mut Self::Scalar, pitch: usize);

    /// # Safety
    /// - As [`transpose`].
    #[doc(hidden)]
    unsafe fn transpose(isa: Isa, rows: &StridedRows<Self>, to: *mut Self::Scalar, pitch: usize);
}

/// A product `C = alpha * A B + beta * C`, with A of `m x k`, B of `k x n` and C of `m x n`.
///
/// Strides are in elements, the row's first: `c[i * c_strides[0] + j * c_strides[1]]`. A transposed operand is one whose
/// strides are exchanged. Where `beta` is 0, C is not read; where `k` is 0, A and B are not. With an [addend](Self::addend) D
/// it is `C = alpha * A B + beta * D`.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<T: GemmElement> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// The first element of A.
    pub a: *const T,
    /// The strides of A.
    pub a_strides: [isize; 2],
    /// The first element of B.
    pub b: *const T,
    /// The strides of B.
    pub b_strides: [isize; 2],
    /// The first element of C.
    pub c: *mut T,
    /// The strides of C.
    pub c_strides: [isize; 2],
    /// Scales the product.
    pub alpha: T::Scalar,
    /// Scales the addend.
    pub beta: T::Scalar,
    /// A matrix that is added to the product instead of the old C.
    pub addend: Option<Addend<T>>,
}

/// A matrix of the size of C, which may repeat elements by strides of 0: a bias is one row, `[0, 1]`.
#[derive(Clone, Copy, Debug)]
pub struct Addend<T> {
    /// The first element.
    pub first: *const T,
    /// The strides, in elements, the row's first.
    pub strides: [isize; 2],
}

impl<T: GemmElement> Gemm<T> {
    /// A product of row-major contiguous matrices that overwrites C.
    #[must_use]
    pub fn contiguous(m: usize, n: usize, k: usize, a: *const T, b: *const T, c: *mut T) -> Self {
        let (wide, deep) = (n as isize, k as isize);
        let (alpha, beta) = (T::Scalar::ONE, T::Scalar::ZERO);
        Self {
            m,
            n,
            k,
            a,
            a_strides: [deep, 1],
            b,
            b_strides: [wide, 1],
            c,
            c_strides: [wide, 1],
            alpha,
            beta,
            addend: None,
        }
    }

    /// The product of the transposes, `C' = B' A'`, which computes the same elements of C.
    fn transposed(self) -> Self {
        let swap = |[row, column]: [isize; 2]| [column, row];
        Self {
            m: self.n,
            n: self.m,
            a: self.b,
            a_strides: swap(self.b_strides),
            b: self.a,
            b_strides: swap(self.a_strides),
            c_strides: swap(self.c_strides),
            addend: self.addend.map(|d| Addend { strides: swap(d.strides), ..d }),
            ..self
        }
    }

    /// The same product, transposed if that makes the columns of C adjacent. Strides of dimensions of one element become 1.
    fn oriented(mut self) -> Self {
        let adjacent = |len: usize, stride: &mut isize| {
            if len == 1 {
                *stride = 1;
            }
        };
        if self.n == 1 || (self.c_strides[1] != 1 && (self.c_strides[0] == 1 || self.m == 1)) {
            // A single column is a single row of the transposed product, whose elements fill registers.
            self = self.transposed();
        }
        adjacent(self.n, &mut self.c_strides[1]);
        adjacent(self.n, &mut self.b_strides[1]);
        adjacent(self.k, &mut self.a_strides[1]);
        self
    }
}

/// Computes one product, on several threads if it is large. Unwinds with [`OutOfMemory`] if buffers for packing cannot be allocated.
///
/// # Safety
/// - The CPU has `isa`: [`Isa::is_available`].
/// - Every element of A and B that the shapes and strides address is readable, and every one of C is writable. C is readable unless
///   `beta` is 0 or an addend is given; an addend is readable.
/// - No two elements of C share memory, and C overlaps neither A nor B nor the addend.
/// - No other thread writes A or B, or uses C, during the call.
///
/// # Example
///
/// ```
/// use flambeau_gemm::{Gemm, Isa, gemm};
/// let (a, b, mut c) = ([1f32, 2.0, 3.0, 4.0], [1f32, 0.0, 0.0, 10.0], [f32::NAN; 4]);
/// let product = Gemm::contiguous(2, 2, 2, a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
/// // SAFETY: the CPU has the detected set, and each array holds the four elements of its matrix.
/// unsafe { gemm(Isa::detected(), &product) };
/// assert_eq!(c, [1.0, 20.0, 3.0, 40.0]);
/// ```
pub unsafe fn gemm<T: GemmElement>(isa: Isa, g: &Gemm<T>) {
    if g.m == 0 || g.n == 0 {
        return;
    }
    // SAFETY: the caller's conditions.
    unsafe { T::multiply(isa, &g.oriented()) }
}

/// The rows of a matrix, with strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct StridedRows<T> {
    /// The first element of the first row.
    pub from: *const T,
    /// The number of rows.
    pub rows: usize,
    /// The stride between rows.
    pub row_stride: isize,
    /// Elements of a row.
    pub len: usize,
    /// The stride between elements of a row.
    pub stride: isize,
}

/// Writes rows as columns, converted to the type they are summed in: element `i` of row `j` to `to[i * pitch + j]`, and zeros after the
/// last row.
///
/// # Safety
/// - The CPU has `isa`: [`Isa::is_available`].
/// - All elements are readable, and `len * pitch` elements are writable at `to`; `pitch` is at least the number of rows.
pub unsafe fn transpose_pack<T: GemmElement>(
    isa: Isa,
    rows: &StridedRows<T>,
    to: *mut T::Scalar,
    pitch: usize,
) {
    // SAFETY: the caller's conditions.
    unsafe { T::transpose_pack(isa, rows, to, pitch) }
}

/// [`transpose_pack`] without zeros after the last row.
///
/// # Safety
/// - The CPU has `isa`: [`Isa::is_available`].
/// - All elements are readable, and as many as there are rows are writable at `to + i * pitch` for each `i` below `len`.
pub unsafe fn transpose<T: GemmElement>(isa: Isa, rows: &StridedRows<T>, to: *mut T::Scalar, pitch: usize) {
    // SAFETY: the caller's conditions.
    unsafe { T::transpose(isa, rows, to, pitch) }
}

/// Multiply-adds below which a product of a batch is not worth a thread of its own.
const WORTH_A_THREAD: usize = 1 << 19;

/// Computes `item(0)` to `item(count - 1)`: small products several to a thread, large ones one after another, each on all threads.
///
/// A strided batch, a list of matrices, and a batch that is broadcast over one operand differ only in the pointers that `item` returns.
/// All products should have the size of the first, from which it is decided how they are shared among threads.
///
/// # Safety
/// - For each product as [`gemm`]; and no two share an element of C.
pub unsafe fn gemm_batch<T: GemmElement>(isa: Isa, count: usize, item: impl Fn(usize) -> Gemm<T> + Sync) {
    if count == 0 {
        return;
    }
    let first = item(0);
    let work = first.m.saturating_mul(first.n).saturating_mul(first.k).max(1);
    if count == 1 || work >= 16 * WORTH_A_THREAD {
        for i in 0..count {
            // SAFETY: the caller's conditions.
            unsafe { gemm(isa, &item(i)) }
        }
        return;
    }
    parallel_for(0..count, (WORTH_A_THREAD / work).max(1), |part| {
        for i in part {
            // SAFETY: the caller's conditions; products write different elements.
            unsafe { gemm(isa, &item(i)) }
        }
    });
}
