//! Matrix products: `C = alpha * A B + beta * C`, for any strides, on raw memory; or, with an addend in the place of the old C,
//! a product and the rows of a bias in one pass.
//!
//! One micro-kernel ([`tile`]) holds a tile of C in registers while k runs. It reads A and B where they lie, or packed
//! into panels where that pays or where their layout or type asks for it ([`pack`]); [`plan`] decides, and [`blocks`] walks. With
//! AMX, tiles of bf16 have a kernel of their own (`amx`). The instruction set is an argument ([`Isa`]), [`Isa::detected`] by
//! default.
//!
//! Matrices that are only to be turned are, a few lines at a time ([`turn`]) or as a whole past the caches ([`stream_turned`]).
//!
//! Every element of C is summed in one order, which follows from the shapes, strides, types and instruction set: the
//! number of threads never changes a bit.
//!
//! References: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), for the blocks; Van
//! Zee and van de Geijn, "BLIS" (2015), for the loops around one micro-kernel.
#![expect(unsafe_code, reason = "operands are raw memory")]

#[cfg(target_arch = "x86_64")]
mod amx;
mod blocks;
mod convert;
mod element;
mod isa;
mod lanes;
mod pack;
mod plan;
mod portable;
mod product;
mod round;
pub mod scratch;
mod small;
mod squares;
#[cfg(test)]
mod tests;
mod tile;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

use element::{Element, Scalar};
pub use isa::Isa;
pub use scratch::{OutOfMemory, Scratch, Shared};
pub use squares::{Squares, side, stream_turned};

use flambeau_parallel::parallel_for;

/// An element type that products exist for: f32, f64, bf16, f16, i8, u8, i16, i32, i64.
///
/// bf16 and f16 are summed in f32 and rounded once, at the end. Integers wrap.
pub trait GemmElement: Element<Acc = Self::Scalar> {
    /// The type of `alpha` and `beta`: f32 for half precision, i32 for integers of at most 32 bits, else the type.
    type Scalar: Scalar;

    /// The product whose C is oriented. Not generic, so that it is compiled here and not in every crate that asks.
    ///
    /// # Safety
    /// - As [`gemm`].
    #[doc(hidden)]
    unsafe fn multiply(isa: Isa, g: &Gemm<Self>);

    /// # Safety
    /// - As [`turn`].
    #[doc(hidden)]
    unsafe fn turn(isa: Isa, lines: &Lines<Self>, to: *mut Self::Scalar, pitch: usize);
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
    /// What is added to the product, if it is not what C held before.
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

    /// The product of the transposes, `C' = B' A'`: the same numbers in the same places.
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

    /// With strides that matter chosen so that C has adjacent columns, if it can have them.
    fn oriented(mut self) -> Self {
        let adjacent = |len: usize, stride: &mut isize| {
            if len == 1 {
                *stride = 1;
            }
        };
        if self.n == 1 || (self.c_strides[1] != 1 && (self.c_strides[0] == 1 || self.m == 1)) {
            // A single column is a single row of the transposed product: its elements fill a register.
            self = self.transposed();
        }
        adjacent(self.n, &mut self.c_strides[1]);
        adjacent(self.n, &mut self.b_strides[1]);
        adjacent(self.k, &mut self.a_strides[1]);
        self
    }
}

/// Computes one product, on several threads if it is large. Unwinds with [`OutOfMemory`] if there is no room for what is packed.
///
/// # Safety
/// - The CPU has `isa`: [`Isa::is_available`].
/// - Every element of A and B that the shapes and strides lead to is readable, and every one of C writable, and
///   readable unless `beta` is 0 or an addend is given, which then is.
/// - No two elements of C are one, and C overlaps neither A nor B nor the addend.
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

/// Lines of elements, to be [turned](turn).
#[derive(Clone, Copy, Debug)]
pub struct Lines<T> {
    /// The first element of the first line.
    pub from: *const T,
    /// How many lines.
    pub lines: usize,
    /// The distance between lines.
    pub line: isize,
    /// Elements of a line.
    pub len: usize,
    /// The distance between elements of a line.
    pub step: isize,
}

/// Writes lines as columns, in the type they are summed in: element `i` of line `j` to `to[i * pitch + j]`, and zeros behind the
/// last line.
///
/// # Safety
/// - The CPU has `isa`: [`Isa::is_available`].
/// - All elements are readable, and `to` takes `len` rows of `pitch`, which is at least the number of lines.
pub unsafe fn turn<T: GemmElement>(isa: Isa, lines: &Lines<T>, to: *mut T::Scalar, pitch: usize) {
    // SAFETY: the caller's conditions.
    unsafe { T::turn(isa, lines, to, pitch) }
}

/// Multiply-adds below which a product of a batch is not worth a thread of its own.
const WORTH_A_THREAD: usize = 1 << 19;

/// Computes `item(0)` to `item(count - 1)`, small ones several to a thread, large ones one after another.
///
/// A strided batch, a list, and a batch broadcast over one operand are all closures that move the pointers. All
/// products should have the size of the first: it decides who runs what.
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
