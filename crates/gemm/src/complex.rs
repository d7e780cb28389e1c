//! Products of complex matrices, each by one real product with four multiply-adds for a complex one.
//!
//! A complex number in memory is its real part and its imaginary part, so a row of k complex numbers is a row of 2 k real ones. Below each
//! row b of B belongs the row i b. Then `[re a, im a, ..] [b; i b; ..]` is the row `a b` of the result, with its parts where they belong: A
//! and C are used where they are, and only B is copied. Errors are bounded as those of a real product are, by the sum of the absolute
//! values of all products of parts. Three real products for each complex one would do, but have twice the error, and make NaN of
//! infinities.
//!
//! A result of few rows would use each element of that copy only a few times. There A is copied instead, with its parts in rows of
//! their own, and B is used where it is; the sums with `re a` and those with `im a` are then combined.

use super::{
    Gemm, GemmElement, WORTH_A_THREAD as WORTH_A_PRODUCT,
    element::Scalar as _,
    gemm,
    isa::Isa,
    scratch::{Scratch, SendPtr},
};
use flambeau_parallel::parallel_for;
use std::ops::Range;

/// Rows of a result up to which B is not copied.
const FEW_ROWS: usize = 4;
/// Real numbers in the copy of B, of which there are several pieces if it would have more.
const PIECE: usize = 1 << 22;
/// Complex numbers for which another thread is worthwhile.
const WORTH_A_THREAD: usize = 1 << 14;
/// Rows that are copied together where their elements are not adjacent.
const BLOCK: usize = 16;

/// A product of complex matrices. Pointers are those of real parts, strides are in complex numbers, and factors are real.
#[derive(Clone, Copy)]
pub struct ComplexGemm<T: GemmElement> {
    /// The matrices, without an addend.
    pub product: Gemm<T>,
    /// Whether the elements of A and of B stand for their conjugates.
    pub conjugate: [bool; 2],
}

fn minus<T: GemmElement>(x: T) -> T {
    T::narrow(x.widen().mul(T::Scalar::MINUS_ONE))
}

fn plus<T: GemmElement>(x: T, y: T) -> T {
    T::narrow(x.widen().mul_add(T::Scalar::ONE, y.widen()))
}

/// Which operand is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    A,
    B,
}

impl<T: GemmElement> ComplexGemm<T> {
    /// The product of the transposes in reverse order.
    fn transposed(self) -> Self {
        let [a, b] = self.conjugate;
        Self { product: self.product.transposed(), conjugate: [b, a] }
    }

    /// The product or that of the transposes, whichever copies less, and which operand is copied.
    fn oriented(self) -> (Self, Copied) {
        let Gemm { m, n, a_strides, b_strides, c_strides, .. } = self.product;
        // The larger operand of a product with a vector is used where it is, if it can be.
        if n == 1 && m > 1 && a_strides[1] != 1 && a_strides[0] == 1 {
            return (self.transposed(), Copied::A);
        }
        if n == 1 {
            return (self, Copied::B);
        }
        if m == 1 && b_strides[1] != 1 {
            return (self.transposed(), Copied::B);
        }
        let is_column_major = c_strides[1] != 1 && c_strides[0] == 1;
        let it = if is_column_major { self.transposed() } else { self };
        let product = &it.product;
        let has_few_rows = product.m <= FEW_ROWS && product.n > FEW_ROWS * product.m;
        let copied = if has_few_rows && product.b_strides[1] == 1 { Copied::A } else { Copied::B };
        (it, if m == 1 { Copied::A } else { copied })
    }
}

/// Computes a product of complex matrices, on several threads if it is large. Unwinds with
/// [`OutOfMemory`](super::OutOfMemory) if a copy cannot be allocated.
///
/// # Safety
/// - As [`gemm`], where an element of a matrix is two adjacent numbers.
pub unsafe fn complex_gemm<T: GemmElement>(isa: Isa, g: &ComplexGemm<T>) {
    let (g, copied) = g.oriented();
    if g.product.m == 0 || g.product.n == 0 {
        return;
    }
    // SAFETY: the caller's conditions, which transposing does not change.
    unsafe {
        match copied {
            Copied::A => multiply_planes(isa, &g),
            Copied::B if g.product.n == 1 || g.product.c_strides[1] == 1 => multiply_rows(isa, &g),
            Copied::B => multiply_to_buffer(isa, &g),
        }
    }
}

/// Computes `item(0)` to `item(count - 1)` as [`gemm_batch`](super::gemm_batch) does.
///
/// # Safety
/// - For each product as [`complex_gemm`]; and no two share an element of C.
pub unsafe fn complex_gemm_batch<T: GemmElement>(
    isa: Isa,
    count: usize,
    item: impl Fn(usize) -> ComplexGemm<T> + Sync,
) {
    if count == 0 {
        return;
    }
    let Gemm { m, n, k, .. } = item(0).product;
    let work = m.saturating_mul(n).saturating_mul(k).saturating_mul(4).max(1);
    // SAFETY: the caller's conditions; products write different elements.
    let run = |part: Range<usize>| part.for_each(|i| unsafe { complex_gemm(isa, &item(i)) });
    if count == 1 || work >= 16 * WORTH_A_PRODUCT {
        return run(0..count);
    }
    parallel_for(0..count, (WORTH_A_PRODUCT / work).max(1), run);
}

/// Copies B with its multiples of i.
///
/// # Safety
/// - As [`complex_gemm`], and the columns of C are adjacent.
unsafe fn multiply_rows<T: GemmElement>(isa: Isa, g: &ComplexGemm<T>) {
    let p = &g.product;
    // SAFETY: the caller's conditions; the copies hold what is written to them and read.
    unsafe {
        let mut rows_of_a = None;
        let (mut a, mut a_row) = (p.a, 2 * p.a_strides[0]);
        if p.a_strides[1] != 1 && p.k > 1 {
            let copy = rows_of_a.insert(Scratch::new::<T>(2 * p.m * p.k)).as_mut_ptr::<T>();
            copy_rows(p.a, p.a_strides, [p.m, p.k], copy);
            (a, a_row) = (copy.cast_const(), 2 * p.k as isize);
        }
        let columns = (PIECE / (4 * p.k).max(1)).clamp(BLOCK, p.n.max(BLOCK));
        let mut copy = Scratch::new::<T>(4 * p.k * columns.min(p.n));
        for first in (0..p.n).step_by(columns) {
            let count = columns.min(p.n - first);
            copy_with_multiples(g, first..first + count, copy.as_mut_ptr());
            let real = Gemm {
                n: 2 * count,
                k: 2 * p.k,
                a,
                a_strides: [a_row, 1],
                b: copy.as_mut_ptr::<T>().cast_const(),
                b_strides: [2 * count as isize, 1],
                c: p.c.wrapping_offset(2 * first as isize * p.c_strides[1]),
                c_strides: [2 * p.c_strides[0], 1],
                ..*p
            };
            gemm(isa, &real);
        }
    }
}

/// Copies a matrix, so that the elements of its rows become adjacent.
///
/// # Safety
/// - All elements are readable, and as many writable at `to`.
unsafe fn copy_rows<T: GemmElement>(
    from: *const T,
    strides: [isize; 2],
    [rows, columns]: [usize; 2],
    to: *mut T,
) {
    let (from, to) = (SendPtr(from.cast_mut()), SendPtr(to));
    let blocks = rows.div_ceil(BLOCK);
    parallel_for(0..blocks, (WORTH_A_THREAD / (BLOCK * columns).max(1)).max(1), move |part| {
        for block in part {
            for j in 0..columns {
                for i in block * BLOCK..rows.min((block + 1) * BLOCK) {
                    let at = 2 * (i as isize * strides[0] + j as isize * strides[1]);
                    // SAFETY: the element of row `i` and column `j`, of which only this part writes the copy.
                    unsafe {
                        let from = from.at().cast_const().offset(at).cast::<[T; 2]>();
                        to.at().add(2 * (i * columns + j)).cast::<[T; 2]>().write(from.read());
                    }
                }
            }
        }
    });
}

/// Writes each row b of some columns of B, followed by i b; with opposite signs where A stands for its conjugate.
///
/// # Safety
/// - The columns are inside B, and four numbers for each of their elements are writable at `to`.
unsafe fn copy_with_multiples<T: GemmElement>(g: &ComplexGemm<T>, columns: Range<usize>, to: *mut T) {
    let (k, [row, column]) = (g.product.k, g.product.b_strides);
    let (from, to, count) = (SendPtr(g.product.b.cast_mut()), SendPtr(to), columns.len());
    let [conjugate_a, conjugate_b] = g.conjugate;
    let sign = move |negative: bool, x: T| if negative { minus(x) } else { x };
    let copy = move |p: usize, j: usize| {
        let at = 2 * (p as isize * row + (columns.start + j) as isize * column);
        // SAFETY: an element of B, and where its copies belong.
        unsafe {
            let [re, im] = from.at().cast_const().offset(at).cast::<[T; 2]>().read();
            let im = sign(conjugate_b, im);
            let to = to.at().add(4 * p * count + 2 * j).cast::<[T; 2]>();
            to.write([re, im]);
            to.add(count).write([sign(!conjugate_a, im), sign(conjugate_a, re)]);
        }
    };
    parallel_for(0..k.div_ceil(BLOCK), (WORTH_A_THREAD / (BLOCK * count)).max(1), move |part| {
        for block in part {
            let rows = block * BLOCK..k.min((block + 1) * BLOCK);
            if column == 1 {
                rows.for_each(|p| (0..count).for_each(|j| copy(p, j)));
            } else {
                (0..count).for_each(|j| rows.clone().for_each(|p| copy(p, j)));
            }
        }
    });
}

/// A product into adjacent columns, which are then added to C.
///
/// # Safety
/// - As [`complex_gemm`].
unsafe fn multiply_to_buffer<T: GemmElement>(isa: Isa, g: &ComplexGemm<T>) {
    let p = &g.product;
    let mut buffer = Scratch::new::<T>(2 * p.m * p.n);
    let to = Gemm { c: buffer.as_mut_ptr(), c_strides: [p.n as isize, 1], beta: T::Scalar::ZERO, ..*p };
    // SAFETY: the caller's conditions; the buffer holds the product.
    unsafe {
        multiply_rows(isa, &ComplexGemm { product: to, ..*g });
        for i in 0..p.m {
            for j in 0..p.n {
                let sum = to.c.add(2 * (i * p.n + j)).cast::<[T; 2]>().read();
                add_to(p, i, j, sum);
            }
        }
    }
}

/// Writes an element of the product, plus `beta` times the old one.
///
/// # Safety
/// - As [`complex_gemm`], for an element of C.
unsafe fn add_to<T: GemmElement>(p: &Gemm<T>, i: usize, j: usize, sum: [T; 2]) {
    let at = 2 * (i as isize * p.c_strides[0] + j as isize * p.c_strides[1]);
    // SAFETY: the caller's condition; the old element is read only where `beta` is not 0.
    unsafe {
        let to = p.c.offset(at).cast::<[T; 2]>();
        if p.beta == T::Scalar::ZERO {
            return to.write(sum);
        }
        let old = to.read();
        to.write([0, 1].map(|part| T::narrow(old[part].widen().mul_add(p.beta, sum[part].widen()))));
    }
}

/// Copies A, its parts in rows of their own.
///
/// # Safety
/// - As [`complex_gemm`], and the columns of B are adjacent.
unsafe fn multiply_planes<T: GemmElement>(isa: Isa, g: &ComplexGemm<T>) {
    let (p, [conjugate_a, conjugate_b]) = (&g.product, g.conjugate);
    let (mut planes, mut sums) = (Scratch::new::<T>(2 * p.m * p.k), Scratch::new::<T>(4 * p.m * p.n));
    let (planes, sums) = (planes.as_mut_ptr::<T>(), sums.as_mut_ptr::<T>());
    // SAFETY: the caller's conditions; the copies hold what is written to them and read.
    unsafe {
        for i in 0..p.m {
            for q in 0..p.k {
                let at = 2 * (i as isize * p.a_strides[0] + q as isize * p.a_strides[1]);
                let [re, im] = p.a.offset(at).cast::<[T; 2]>().read();
                planes.add(2 * i * p.k + q).write(re);
                planes.add((2 * i + 1) * p.k + q).write(if conjugate_a { minus(im) } else { im });
            }
        }
        let mut real = Gemm::contiguous(2 * p.m, 2 * p.n, p.k, planes, p.b, sums);
        (real.b_strides, real.alpha) = ([2 * p.b_strides[0], 1], p.alpha);
        gemm(isa, &real);
        for i in 0..p.m {
            for j in 0..p.n {
                let of = |part: usize| sums.add(2 * ((2 * i + part) * p.n + j)).cast::<[T; 2]>().read();
                let ([x, y], [u, v]) = (of(0), of(1));
                let sum = if conjugate_b {
                    [plus(x, v), plus(u, minus(y))]
                } else {
                    [plus(x, minus(v)), plus(u, y)]
                };
                add_to(p, i, j, sum);
            }
        }
    }
}
