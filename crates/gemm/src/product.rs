//! Chooses the algorithm of a product, and where its sums are stored until they are rounded.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    Addend, Gemm, GemmElement,
    blocks::{self, Target},
    dot,
    element::{Element, Pack, Scalar},
    few_columns, few_rows,
    lanes::Lanes,
    plan::is_one_slab,
    scratch::{Scratch, SendPtr},
    short, small, tall, tiny, vector,
};
use flambeau_parallel::parallel_for;

/// Elements of C whose sums are stored in a buffer at once, where they are not stored in C itself.
const PIECE: usize = 1 << 21;

/// The product with these lanes. C is oriented: its columns are adjacent if they can be.
///
/// # Safety
/// - As [`super::gemm`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = <T as Element>::Acc>>(
    g: &Gemm<T>,
) {
    let is_vector = vector::applies(g);
    let special = Special::of::<T, L>(g);
    let is_direct = T::IS_ACCUMULATOR && g.c_strides[1] == 1 && special.is_none();
    // Accumulators are multiplied by tiles, whatever the number of rows, so that a row's result does not depend on the others.
    if !T::IS_ACCUMULATOR && tiny::applies(g, is_vector) {
        // SAFETY: the caller's conditions.
        return unsafe { tiny::multiply(g) };
    }
    // SAFETY: the caller's conditions; an element of C is an accumulator where `IS_ACCUMULATOR` says so.
    unsafe {
        if let Some(addend) = g.addend.filter(|d| !is_direct || d.strides[1] != 1) {
            if g.beta != T::Scalar::ZERO {
                copy_addend(g, &addend);
            }
            return multiply::<T, L>(&Gemm { addend: None, ..*g });
        }
        match special {
            Some(Special::Dot) => dot::multiply::<T, L>(g),
            Some(Special::Short) => short::multiply::<T, L>(g),
            Some(Special::Tall) => tall::multiply::<T, L>(g),
            Some(Special::FewRows) => few_rows::multiply::<T, L>(g),
            Some(Special::Vector) => vector::multiply::<T, L>(g),
            Some(Special::FewColumns) => few_columns::multiply::<T, L>(g),
            None if small::applies::<T, L>(g) => small::multiply::<T, L>(g),
            None if is_direct => blocks::multiply::<T, L>(g, Target::of(g), false),
            None => multiply_via_buffer::<T, L>(g),
        }
    }
}

/// Products that are not computed in tiles.
#[derive(Clone, Copy)]
enum Special {
    Dot,
    Short,
    Tall,
    FewRows,
    Vector,
    FewColumns,
}

impl Special {
    fn of<T: GemmElement, L: Lanes>(g: &Gemm<T>) -> Option<Self> {
        if dot::applies(g) {
            Some(Self::Dot)
        } else if short::applies(g) {
            Some(Self::Short)
        } else if tall::applies(g) {
            Some(Self::Tall)
        } else if few_rows::applies(g) {
            Some(Self::FewRows)
        } else if vector::applies(g) {
            Some(Self::Vector)
        } else {
            few_columns::applies::<T, L>(g).then_some(Self::FewColumns)
        }
    }
}

/// Copies the addend to C, for the algorithms that can only add to the old C.
///
/// # Safety
/// - As [`super::gemm`].
unsafe fn copy_addend<T: GemmElement>(g: &Gemm<T>, addend: &Addend<T>) {
    let (c, from, n) = (SendPtr(g.c), SendPtr(addend.first.cast_mut()), g.n);
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

/// Computes sums in a buffer, from which the elements of C are rounded, for a number of rows of C at a time.
///
/// # Safety
/// - As [`super::gemm`].
unsafe fn multiply_via_buffer<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = <T as Element>::Acc>>(
    g: &Gemm<T>,
) {
    // With one slab of k, no sum outlives its tile, and no buffer is needed.
    let (rows, columns) = match is_one_slab::<T, L>(g.k) {
        true => (g.m, 0),
        false => ((PIECE / g.n).clamp(1, g.m), g.n),
    };
    let mut sums = Scratch::new::<L::Acc>(rows * columns);
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
            blocks::multiply::<T, L>(&piece, target, true);
        }
    }
}
