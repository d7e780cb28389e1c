//! Attention a block of queries at a time: the scores of a block stay in the cache from one product to the next, and no matrix of
//! all scores exists. Queries lie along the columns of a block, so that no product needs a packed key or value.
//!
//! References: Rabe and Staats, "Self-attention does not need O(n²) memory" (2021); Dao et al., "FlashAttention" (2022), for
//! weights that are made again in the backward pass.
#![expect(unsafe_code, reason = "matrices of tensors and blocks of scores are raw memory")]

use super::weights::{Rows, Scores, Statistics, Weighed};
use crate::Tensor;
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, gemm};
use crate::parallel::parallel_for;
use flambeau_core::Guarded;
use std::ops::Range;

/// Bytes of scores in a block: a part of the second-level cache, which also holds slopes, keys and values.
const BLOCK: usize = 1 << 17;
/// Queries that fill the registers of a product: a causal block is cut into pieces of so many, each with the keys that it sees.
const PIECE: usize = 32;
/// Queries in a block at most.
const MOST: usize = 64;
/// Elements of a cache line, or two.
const LINE: usize = 16;
/// Multiply-adds worth a thread.
const WORTH_A_THREAD: usize = 1 << 18;

/// The matrices of the last two dimensions of a tensor, by their number in row-major order of the others.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a, T> {
    first: *mut T,
    sizes: &'a [i64],
    strides: &'a [i64],
}

// SAFETY: it is an address that the guards of the calling thread protect; each element is written by one thread.
unsafe impl<T> Sync for Batch<'_, T> {}

impl<'a, T> Batch<'a, T> {
    pub(super) fn new(guarded: Guarded<'_>, tensor: &'a Tensor) -> Self {
        let view = tensor.strided_view();
        Batch { first: guarded.ptr(view).cast(), sizes: view.sizes(), strides: view.strides() }
    }

    fn at(&self, mut index: usize) -> Matrix<T> {
        let outer = self.sizes.len() - 2;
        let mut offset = 0;
        for (size, stride) in self.sizes[..outer].iter().zip(self.strides).rev() {
            offset += (index % *size as usize) as isize * *stride as isize;
            index /= *size as usize;
        }
        let strides = [self.strides[outer] as isize, self.strides[outer + 1] as isize];
        Matrix { at: self.first.wrapping_offset(offset), strides }
    }
}

#[derive(Clone, Copy)]
struct Matrix<T> {
    at: *mut T,
    strides: [isize; 2],
}

impl<T> Matrix<T> {
    /// Without the first rows.
    fn below(self, row: usize) -> Self {
        Matrix { at: self.at.wrapping_offset(row as isize * self.strides[0]), ..self }
    }

    /// Without the first columns.
    fn right_of(self, column: usize) -> Self {
        self.transposed().below(column).transposed()
    }

    fn transposed(self) -> Self {
        Matrix { strides: [self.strides[1], self.strides[0]], ..self }
    }
}

/// `c = alpha * a b + beta * c`, with the sizes of `c` and the inner one.
///
/// # Safety
/// - As [`gemm`].
unsafe fn multiply<T: GemmElement>(
    [m, n, k]: [usize; 3],
    [a, b, c]: [Matrix<T>; 3],
    alpha: T::Scalar,
    beta: T::Scalar,
) {
    let (a_strides, b_strides, c_strides) = (a.strides, b.strides, c.strides);
    let (a, b, c, addend) = (a.at, b.at, c.at, None);
    let product = Gemm { m, n, k, a, a_strides, b, b_strides, c, c_strides, alpha, beta, addend };
    // SAFETY: the caller's conditions.
    unsafe { gemm(Isa::detected(), &product) }
}

/// A call: its operands and sizes.
pub(super) struct Attention<'a, T> {
    pub(super) query: Batch<'a, T>,
    pub(super) key: Batch<'a, T>,
    pub(super) value: Batch<'a, T>,
    pub(super) bias: Option<Batch<'a, T>>,
    /// For each query its greatest score, and the inverse of the sum of its exponentials: contiguous.
    pub(super) greatest: Batch<'a, T>,
    pub(super) inverse: Batch<'a, T>,
    pub(super) heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) depth: usize,
    pub(super) width: usize,
    pub(super) is_causal: bool,
    pub(super) scale: f64,
}

impl<T: GemmElement<Scalar = T> + Weighed> Attention<'_, T> {
    /// Queries in a block: by sizes alone.
    fn rows(&self) -> usize {
        let fitting = BLOCK / (self.keys * size_of::<T>()).max(1);
        (fitting / PIECE * PIECE).clamp(PIECE, MOST)
    }

    fn blocks(&self) -> usize {
        self.queries.div_ceil(self.rows())
    }

    /// The queries of a block, and how many keys some of them sees.
    fn block(&self, index: usize) -> (Range<usize>, usize) {
        let first = index * self.rows();
        let last = (first + self.rows()).min(self.queries);
        (first..last, if self.is_causal { self.keys.min(last) } else { self.keys })
    }

    /// Parts of the queries of a block, counted from its first, and how many keys some of them sees.
    fn pieces(&self, queries: &Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> {
        let (first, n, all, causal) = (queries.start, queries.len(), self.keys, self.is_causal);
        (0..n).step_by(if causal { PIECE } else { n.max(1) }).map(move |start| {
            let end = if causal { n.min(start + PIECE) } else { n };
            (start..end, if causal { all.min(first + end) } else { all })
        })
    }

    /// Parts of the keys, and the first query, counted from that of the block, of the pieces that see them.
    fn seen(&self, queries: &Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.pieces(queries).scan(0, |done, (piece, keys)| {
            let start = std::mem::replace(done, keys);
            Some((start..keys, piece.start))
        })
    }

    /// The products of the keys that each piece of a block sees with its queries: `to = alpha * of * with^T + beta * to`.
    ///
    /// # Safety
    /// - As [`gemm`]; `of` has a row for each key, `with` one for each query of the block, `to` is laid out as its scores.
    unsafe fn keys_by_queries(
        &self,
        queries: &Range<usize>,
        depth: usize,
        [of, with, to]: [Matrix<T>; 3],
        [alpha, beta]: [T; 2],
    ) {
        for (keys, first) in self.seen(queries) {
            let (with, to) = (with.below(first).transposed(), to.right_of(first));
            let operands = [of.below(keys.start), with, to.below(keys.start)];
            // SAFETY: the caller's conditions.
            unsafe { multiply([keys.len(), queries.len() - first, depth], operands, alpha, beta) }
        }
    }

    /// The sums over the keys that each query of a block sees: `to = alpha * block^T * of`.
    ///
    /// # Safety
    /// - As [`gemm`]; `block` is laid out as scores, `of` has a row for each key, `to` one for each query of the block.
    unsafe fn over_keys(
        &self,
        queries: &Range<usize>,
        width: usize,
        [block, of, to]: [Matrix<T>; 3],
        alpha: T,
    ) {
        for (piece, keys) in self.pieces(queries) {
            let (weights, to) = (block.right_of(piece.start).transposed(), to.below(piece.start));
            // SAFETY: the caller's conditions.
            unsafe { multiply([piece.len(), width, keys], [weights, of, to], alpha, T::from_f64(0.0)) }
        }
    }

    /// The sums over the queries of a block that see each key: `to = alpha * block * of + beta * to`.
    ///
    /// # Safety
    /// - As [`gemm`]; `block` is laid out as scores, `of` has a row for each query of the block, `to` one for each key.
    unsafe fn over_queries(
        &self,
        queries: &Range<usize>,
        width: usize,
        [block, of, to]: [Matrix<T>; 3],
        [alpha, beta]: [T; 2],
    ) {
        for (keys, first) in self.seen(queries) {
            let (block, of) = (block.below(keys.start).right_of(first), of.below(first));
            let operands = [block, of, to.below(keys.start)];
            // SAFETY: the caller's conditions.
            unsafe { multiply([keys.len(), width, queries.len() - first], operands, alpha, beta) }
        }
    }

    /// A distance between rows that is an odd number of cache lines, so that rows do not compete for the same sets.
    fn pitch(&self) -> usize {
        let line = 64 / size_of::<T>();
        (self.rows().min(self.queries).div_ceil(line) | 1) * line
    }

    fn statistics(&self, head: usize, query: usize) -> Statistics<T> {
        let at = |of: Batch<'_, T>| of.first.wrapping_add(head * self.queries + query);
        Statistics { greatest: at(self.greatest), inverse: at(self.inverse) }
    }

    /// The scores of a block of queries with the keys that it sees.
    ///
    /// # Safety
    /// - The operands are readable, and `at` takes `keys` rows.
    unsafe fn score(&self, head: usize, queries: &Range<usize>, keys: usize, at: *mut T) -> Scores<T> {
        let (pitch, n) = (self.pitch(), queries.len());
        let scores = Matrix { at, strides: [pitch as isize, 1] };
        let query = self.query.at(head).below(queries.start);
        let beta = T::from_f64(if self.bias.is_some() { 1.0 } else { 0.0 });
        let factors = [T::from_f64(self.scale), beta];
        // SAFETY: the caller's conditions.
        unsafe {
            if let Some(bias) = &self.bias {
                copy_turned(bias.at(head).below(queries.start), scores, [keys, n]);
            }
            self.keys_by_queries(queries, self.depth, [self.key.at(head), query, scores], factors);
        }
        let open = if self.is_causal { queries.start + 1 } else { keys };
        Scores { at, pitch, keys, queries: n, open }
    }

    /// `out = weights * value`, and the statistics.
    ///
    /// # Safety
    /// - The operands are readable; `out`, with adjacent elements in its rows, and the statistics are writable.
    pub(super) unsafe fn forward(&self, out: Batch<'_, T>) {
        let work = self.rows() * self.keys * (self.depth + self.width);
        let grain = (WORTH_A_THREAD / work.max(1)).max(1);
        parallel_for(0..self.heads * self.blocks(), grain, |part| {
            let mut buffer = Scratch::new::<T>(self.keys * self.pitch());
            for item in part {
                let (head, (queries, keys)) = (item / self.blocks(), self.block(item % self.blocks()));
                // SAFETY: the caller's conditions; each block writes rows of its own.
                unsafe { self.forward_block(head, queries, keys, buffer.as_mut_ptr(), out.at(head)) }
            }
        });
    }

    /// # Safety
    /// - As [`Self::forward`], and `buffer` takes the scores of a block.
    unsafe fn forward_block(
        &self,
        head: usize,
        queries: Range<usize>,
        keys: usize,
        buffer: *mut T,
        out: Matrix<T>,
    ) {
        let (statistics, out) = (self.statistics(head, queries.start), out.below(queries.start));
        let rows = Rows { at: out.at, pitch: out.strides[0], count: queries.len(), width: self.width };
        // SAFETY: the caller's conditions.
        unsafe {
            let scores = self.score(head, &queries, keys, buffer);
            T::weigh(scores, statistics);
            let operands = [matrix(scores), self.value.at(head), out];
            self.over_keys(&queries, self.width, operands, T::from_f64(1.0));
            T::scale(rows, statistics.inverse);
        }
    }

    /// The gradients of query, key and value. Keys that no query sees are left as they are.
    ///
    /// # Safety
    /// - The operands, the statistics and `grad` are readable, and `to` are writable.
    pub(super) unsafe fn backward(&self, grad: Batch<'_, T>, to: [Batch<'_, T>; 3]) {
        let work = self.queries * self.keys * (self.depth + self.width);
        let grain = (WORTH_A_THREAD / work.max(1)).max(1);
        parallel_for(0..self.heads, grain, |part| {
            let block = self.keys * self.pitch();
            let mut buffer = Scratch::new::<T>(2 * block);
            let buffer: *mut T = buffer.as_mut_ptr();
            for head in part {
                let to = [to[0].at(head), to[1].at(head), to[2].at(head)];
                // The last block sees the most keys: it sets their gradients, the others add to them.
                for index in (0..self.blocks()).rev() {
                    let beta = T::from_f64(if index + 1 == self.blocks() { 0.0 } else { 1.0 });
                    let buffers = [buffer, buffer.wrapping_add(block)];
                    // SAFETY: the caller's conditions; each head writes matrices of its own.
                    unsafe { self.backward_block(head, index, buffers, grad.at(head), to, beta) }
                }
            }
        });
    }

    /// # Safety
    /// - As [`Self::backward`], and both buffers take the scores of a block.
    unsafe fn backward_block(
        &self,
        head: usize,
        index: usize,
        [scores, slopes]: [*mut T; 2],
        grad: Matrix<T>,
        [to_query, to_key, to_value]: [Matrix<T>; 3],
        beta: T,
    ) {
        let (queries, keys) = self.block(index);
        let (grad, to_query) = (grad.below(queries.start), to_query.below(queries.start));
        let query = self.query.at(head).below(queries.start);
        let (key, value) = (self.key.at(head), self.value.at(head));
        let (one, zero, scale) = (T::from_f64(1.0), T::from_f64(0.0), T::from_f64(self.scale));
        // SAFETY: the caller's conditions.
        unsafe {
            let scores = self.score(head, &queries, keys, scores);
            let weights = matrix(scores);
            let slopes = Matrix { at: slopes, ..weights };
            self.keys_by_queries(&queries, self.width, [value, grad, slopes], [one, zero]);
            T::weigh_again(scores, self.statistics(head, queries.start), slopes.at);
            self.over_queries(&queries, self.width, [weights, grad, to_value], [one, beta]);
            self.over_queries(&queries, self.depth, [slopes, query, to_key], [scale, beta]);
            self.over_keys(&queries, self.depth, [slopes, key, to_query], scale);
        }
    }
}

/// A block as a matrix with a row for each key.
fn matrix<T>(scores: Scores<T>) -> Matrix<T> {
    Matrix { at: scores.at, strides: [scores.pitch as isize, 1] }
}

/// `to = from^T`, with these sizes of `to`, a few rows at a time: a line of `from` is then read while it is in the cache.
///
/// # Safety
/// - `from` is readable and `to`, with adjacent elements in its rows, writable.
unsafe fn copy_turned<T: Copy>(from: Matrix<T>, to: Matrix<T>, [rows, columns]: [usize; 2]) {
    for first in (0..rows).step_by(LINE) {
        for j in 0..columns {
            let line = from.below(j);
            for i in first..rows.min(first + LINE) {
                // SAFETY: row `i`, column `j` of both.
                unsafe {
                    let value = line.at.offset(i as isize * line.strides[1]).read();
                    to.below(i).at.add(j).write(value);
                }
            }
        }
    }
}
