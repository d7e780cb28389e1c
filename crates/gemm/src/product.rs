//! A product from its description to lanes: which path it takes, and where sums are kept until they are rounded.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    Addend, Gemm, GemmElement,
    blocks::{self, Target},
    element::{Element, Pack, Scalar},
    lanes::{Body, Lanes},
    scratch::{Scratch, Shared},
    small, vector,
};
use flambeau_parallel::parallel_for;

/// Elements of C in one piece where sums are kept beside it.
const PIECE: usize = 1 << 21;

/// The product with these lanes. C is oriented: its columns are adjacent if they can be.
///
/// # Safety
/// - As [`super::gemm`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = <T as Element>::Acc>>(
    g: &Gemm<T>,
) {
    let is_vector = vector::applies(g);
    let is_direct = T::DIRECT && g.c_strides[1] == 1 && !is_vector;
    // SAFETY: the caller's conditions; an element of C is an accumulator where `DIRECT` says so.
    unsafe {
        if let Some(addend) = g.addend.filter(|d| !is_direct || d.strides[1] != 1) {
            if g.beta != T::Scalar::ZERO {
                place(g, &addend);
            }
            return multiply::<T, L>(&Gemm { addend: None, ..*g });
        }
        if is_vector {
            vector::multiply::<T, L>(g);
        } else if small::applies::<T, L>(g) {
            small::multiply::<T, L>(g);
        } else if is_direct {
            blocks::multiply::<T, L>(g, Target::of(g));
        } else {
            multiply_beside::<T, L>(g);
        }
    }
}

/// Writes the addend to C, for the ways that add to what is there.
///
/// # Safety
/// - As [`super::gemm`].
unsafe fn place<T: GemmElement>(g: &Gemm<T>, addend: &Addend<T>) {
    let (c, from, n) = (Shared(g.c), Shared(addend.first.cast_mut()), g.n);
    let (to_strides, strides) = (g.c_strides, addend.strides);
    parallel_for(0..g.m, ((1 << 15) / n).max(1), move |part| {
        for i in part.start as isize..part.end as isize {
            let (to, from) =
                (c.at().wrapping_offset(i * to_strides[0]), from.at().wrapping_offset(i * strides[0]));
            for j in 0..n as isize {
                // SAFETY: an element of C, written by this chunk alone, and one of the addend.
                unsafe { to.offset(j * to_strides[1]).write(from.offset(j * strides[1]).read()) };
            }
        }
    });
}

/// Sums in a buffer of accumulators, a piece of C at a time, then scales and rounds each element once.
///
/// # Safety
/// - As [`super::gemm`].
unsafe fn multiply_beside<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    let rows = (PIECE / g.n).clamp(1, g.m);
    let mut sums = Scratch::new::<L::Acc>(rows * g.n);
    let at = sums.as_mut_ptr::<L::Acc>();
    for start in (0..g.m).step_by(rows) {
        let m = rows.min(g.m - start);
        // SAFETY: rows `start..start + m` of the operands; the buffer holds `m * n`, all written before they are read.
        unsafe {
            let piece = Gemm {
                m,
                a: g.a.offset(start as isize * g.a_strides[0]),
                c: g.c.offset(start as isize * g.c_strides[0]),
                ..*g
            };
            let row = g.n as isize;
            let target = Target { at, row, old: at, old_row: row, alpha: L::Acc::ONE, beta: L::Acc::ZERO };
            blocks::multiply::<T, L>(&piece, target);
            finish::<T, L>(&piece, Shared(at));
        }
    }
}

/// `C = round(alpha * sums + beta * C)`.
///
/// # Safety
/// - `sums` holds `m * n` accumulators, and C is as [`super::gemm`] asks.
unsafe fn finish<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>, sums: Shared<L::Acc>) {
    let (c, strides) = (Shared(g.c), g.c_strides);
    let (n, alpha, beta) = (g.n, g.alpha, g.beta);
    parallel_for(0..g.m, ((1 << 15) / n).max(1), move |part| {
        for i in part {
            // SAFETY: row `i` of both, written by this chunk alone.
            unsafe {
                let (c, sums) = (c.at().offset(i as isize * strides[0]), sums.at().add(i * n));
                L::enter(FinishRow::<T> { c, stride: strides[1], sums, n, alpha, beta });
            }
        }
    });
}

struct FinishRow<T: GemmElement> {
    c: *mut T,
    stride: isize,
    sums: *const T::Scalar,
    n: usize,
    alpha: T::Scalar,
    beta: T::Scalar,
}

impl<T: GemmElement> Body for FinishRow<T> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the row's. A stride of 1 is a constant, so that the loop becomes vector code.
        unsafe {
            match (self.stride, self.beta == T::Scalar::ZERO) {
                (1, true) => self.row::<false>(1),
                (1, false) => self.row::<true>(1),
                (stride, true) => self.row::<false>(stride),
                (stride, false) => self.row::<true>(stride),
            }
        }
    }
}

impl<T: GemmElement> FinishRow<T> {
    /// # Safety
    /// - `n` elements of C and of sums; C is read only if `OLD`.
    #[inline(always)]
    unsafe fn row<const OLD: bool>(&self, stride: isize) {
        for j in 0..self.n {
            // SAFETY: element `j` of both.
            unsafe {
                let to = self.c.offset(j as isize * stride);
                let value = self.sums.add(j).read().mul(self.alpha);
                to.write(T::narrow(if OLD { to.read().widen().mul_add(self.beta, value) } else { value }));
            }
        }
    }
}
