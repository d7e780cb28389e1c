//! Products of a few elements: the same tiles, and so the same bits, without the loops for caches and threads.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    Gemm, GemmElement,
    blocks::{EvenParts, Target},
    element::{Element, Pack},
    lanes::Lanes,
    pack::PackPanel,
    tile::{RowsOfA, TileArgs},
};
use std::{mem::MaybeUninit, ptr};

/// The capacity of the buffer on the stack for the packed strip of B, in units.
const MAX_PACKED_UNITS: usize = 1024;
/// The largest product that is computed here, in multiply-adds: in larger ones the cost of entering the general loops is negligible.
const MAX_MULTIPLY_ADDS: usize = 1 << 13;

/// Whether the product is computed here: B fits in one strip and in the buffer, and elements are packed and summed in their own type.
pub(super) fn applies<T: GemmElement + Pack<L::Unit>, L: Lanes>(g: &Gemm<T>) -> bool {
    T::IS_ACCUMULATOR
        && T::IS_UNIT
        && g.c_strides[1] == 1
        && g.n <= L::NARROW.vectors * L::N
        && g.k * g.n.next_multiple_of(L::N) <= MAX_PACKED_UNITS
        && g.m * g.n * g.k <= MAX_MULTIPLY_ADDS
}

/// # Safety
/// - As [`super::gemm`], [`applies`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement + Pack<L::Unit>, L: Lanes<Acc = <T as Element>::Acc>>(
    g: &Gemm<T>,
) {
    let mut packed = [const { MaybeUninit::<L::Unit>::uninit() }; MAX_PACKED_UNITS];
    let vectors = g.n.div_ceil(L::N);
    let (mut b, mut b_depth): (*const L::Unit, isize) = (g.b.cast(), g.b_strides[0]);
    // SAFETY: the operands; a strip of at most `MAX_PACKED_UNITS` is packed.
    unsafe {
        if g.b_strides[1] != 1 || !g.n.is_multiple_of(L::N) {
            let (to, padded) = (packed.as_mut_ptr().cast::<L::Unit>(), vectors * L::N);
            let (lane, along) = (g.b_strides[1], g.b_strides[0]);
            let (width, k) = (g.n, g.k);
            L::enter(PackPanel::<T, L> { from: g.b, lane, along, width, k, to, padded, groups: k });
            (b, b_depth) = (to, padded as isize);
        }
        let target = Target::<L::Acc>::of(g);
        let tiles = g.m.div_ceil(L::NARROW.rows);
        let parts = EvenParts::new(g.m, tiles);
        for rows in (0..tiles).map(|tile| parts.part(tile)) {
            let first = rows.start as isize;
            let args = TileArgs {
                depth: g.k,
                a: RowsOfA {
                    at: g.a.wrapping_offset(first * g.a_strides[0]).cast(),
                    row: g.a_strides[0],
                    depth: g.a_strides[1],
                    panel: ptr::null_mut(),
                    below: 0,
                },
                b,
                b_depth,
                c: target.at.wrapping_offset(first * target.row),
                c_row: target.row,
                old: target.old.wrapping_offset(first * target.old_row),
                old_row: target.old_row,
                cols: g.n,
                alpha: g.alpha,
                beta: g.beta,
                prefetch: b.cast(),
            };
            L::tile(rows.len(), vectors, &args);
        }
    }
}
