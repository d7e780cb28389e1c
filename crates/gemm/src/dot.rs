//! A row times a column, with any strides: every element is read once, in chunks whose sums are added in order.
#![expect(unsafe_code, reason = "raw operands; vector registers")]

use super::{
    Gemm, GemmElement,
    element::{Element, Scalar},
    lanes::{Body, Lanes},
    scratch::{Scratch, SendPtr},
    vector::{Operands, total, write_scaled},
    widen::widen,
};
use flambeau_parallel::parallel_for;
use std::mem::MaybeUninit;

/// Elements in a chunk, which one thread adds up.
const CHUNK: usize = 1 << 15;
/// Chunks worth a thread.
const WORTH_A_THREAD: usize = 2;
/// Elements that are converted or gathered at once: a multiple of those that all registers of sums take.
const PIECE: usize = 512;
/// Registers of sums: so many that additions do not wait for one another.
const CHAINS: usize = 8;
/// Bytes of both operands from which on they are prefetched.
const LARGE: usize = 1 << 20;
/// The prefetch distance in bytes.
const PREFETCH_DISTANCE: usize = 2048;

/// Whether this file computes the product.
pub(super) fn applies<T: GemmElement>(g: &Gemm<T>) -> bool {
    g.m == 1 && g.n == 1
}

/// # Safety
/// - As [`super::gemm`], [`applies`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    let chunks = g.k.div_ceil(CHUNK);
    // SAFETY: chunks of the operands, each of which writes its own sum.
    unsafe {
        if chunks <= 1 {
            let mut sum = L::Acc::ZERO;
            L::enter(Chunk::<T, L> { g, first: 0, count: g.k, to: &raw mut sum });
            return write_scaled(g, 0, &[sum]);
        }
        let mut sums = Scratch::new::<L::Acc>(chunks);
        let to = SendPtr(sums.as_mut_ptr::<L::Acc>());
        let operands = Operands(*g);
        parallel_for(0..chunks, WORTH_A_THREAD, |part| {
            let Operands(g) = &operands;
            for chunk in part {
                let first = chunk * CHUNK;
                let count = CHUNK.min(g.k - first);
                L::enter(Chunk::<T, L> { g, first, count, to: to.at().add(chunk) });
            }
        });
        let mut sum = L::Acc::ZERO;
        for chunk in 0..chunks {
            sum = to.at().add(chunk).read().mul_add(L::Acc::ONE, sum);
        }
        write_scaled(g, 0, &[sum]);
    }
}

/// The sum over `count` elements of k from `first` on.
struct Chunk<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    first: usize,
    count: usize,
    to: *mut L::Acc,
}

/// # Safety
/// - The elements exist, and the sum is writable.
impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Body for Chunk<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        const { assert!(PIECE.is_multiple_of(CHAINS * L::N)) }
        let (a_stride, b_stride) = (self.g.a_strides[1], self.g.b_strides[0]);
        let (a, b) = (
            self.g.a.wrapping_offset(self.first as isize * a_stride),
            self.g.b.wrapping_offset(self.first as isize * b_stride),
        );
        let is_large = 2 * self.g.k * size_of::<T>() >= LARGE;
        // SAFETY: the conditions above.
        unsafe {
            let mut sums = [L::zero(); CHAINS];
            if T::IS_ACCUMULATOR && a_stride == 1 && b_stride == 1 {
                if is_large {
                    add::<L, true>(&mut sums, a.cast(), b.cast(), self.count);
                } else {
                    add::<L, false>(&mut sums, a.cast(), b.cast(), self.count);
                }
            } else {
                add_pieces::<T, L>(&mut sums, (a, a_stride), (b, b_stride), self.count);
            }
            self.to.write(total(in_one(sums)));
        }
    }
}

/// [`add`] of elements that are converted or gathered first. Pieces are whole multiples of what all registers take, so that the order
/// of the sum is the same.
///
/// # Safety
/// - `count` elements of both are readable through the strides.
#[inline(always)]
unsafe fn add_pieces<T: Element, L: Lanes<Acc = T::Acc>>(
    sums: &mut [L; CHAINS],
    (a, a_stride): (*const T, isize),
    (b, b_stride): (*const T, isize),
    count: usize,
) {
    let mut buffers = [const { MaybeUninit::<[L::Acc; PIECE]>::uninit() }; 2];
    let [a_piece, b_piece] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast::<L::Acc>());
    for first in (0..count).step_by(PIECE) {
        let count = PIECE.min(count - first);
        // SAFETY: a piece of the elements, for which the buffers have room.
        unsafe {
            widen(a.offset(first as isize * a_stride), a_stride, a_piece, count);
            widen(b.offset(first as isize * b_stride), b_stride, b_piece, count);
            add::<L, false>(sums, a_piece, b_piece, count);
        }
    }
}

/// Adds the products of `count` accumulators to the sums: one register after another to each of them, cyclically.
///
/// # Safety
/// - They are readable.
#[inline(always)]
unsafe fn add<L: Lanes, const PREFETCHES: bool>(
    sums: &mut [L; CHAINS],
    a: *const L::Acc,
    b: *const L::Acc,
    count: usize,
) {
    let whole = count / (CHAINS * L::N) * (CHAINS * L::N);
    // SAFETY: the condition above; a prefetch may go past the end.
    unsafe {
        if L::Acc::IS_EXACT {
            let sum = exact_sum(a, b, count);
            sums[0] = L::load_first(&raw const sum, 1).mul_add(L::splat(L::Acc::ONE), sums[0]);
            return;
        }
        for first in (0..whole).step_by(CHAINS * L::N) {
            let (a, b) = (a.add(first), b.add(first));
            for (chain, sum) in sums.iter_mut().enumerate() {
                let at = chain * L::N;
                if PREFETCHES {
                    L::prefetch_l2(a.wrapping_add(at).cast::<u8>().wrapping_add(PREFETCH_DISTANCE));
                    L::prefetch_l2(b.wrapping_add(at).cast::<u8>().wrapping_add(PREFETCH_DISTANCE));
                }
                *sum = L::load(a.add(at)).mul_add(L::load(b.add(at)), *sum);
            }
        }
        for (chain, sum) in sums.iter_mut().enumerate() {
            let at = whole + chain * L::N;
            if at + L::N <= count {
                *sum = L::load(a.add(at)).mul_add(L::load(b.add(at)), *sum);
            } else if at < count {
                let (a, b) = (L::load_first(a.add(at), count - at), L::load_first(b.add(at), count - at));
                *sum = a.mul_add(b, *sum);
            }
        }
    }
}

/// The sum of the products of `count` accumulators in the order that the compiler chooses.
///
/// # Safety
/// - They are readable.
#[inline(always)]
unsafe fn exact_sum<A: Scalar>(a: *const A, b: *const A, count: usize) -> A {
    let mut sum = A::ZERO;
    for i in 0..count {
        // SAFETY: the condition above.
        sum = unsafe { a.add(i).read().mul_add(b.add(i).read(), sum) };
    }
    sum
}

/// The sum of all registers, halves added to halves.
#[inline(always)]
unsafe fn in_one<L: Lanes>([a, b, c, d, e, f, g, h]: [L; CHAINS]) -> L {
    // SAFETY: the CPU has the instruction set.
    unsafe {
        let one = L::splat(L::Acc::ONE);
        let [a, b, c, d] = [a.mul_add(one, e), b.mul_add(one, f), c.mul_add(one, g), d.mul_add(one, h)];
        let [a, b] = [a.mul_add(one, c), b.mul_add(one, d)];
        a.mul_add(one, b)
    }
}
