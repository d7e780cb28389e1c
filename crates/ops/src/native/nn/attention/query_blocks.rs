//! Attention by blocks of queries: the scores of a block stay in the caches from one product to the next, and no matrix of all
//! scores exists. Scores have a row for each key and a column for each query, so that no product needs to pack keys or values.
//!
//! References: Rabe and Staats, "Self-attention does not need O(n²) memory" (2021); Dao et al., "FlashAttention" (2022), for
//! recomputing the weights in the backward pass.
#![expect(unsafe_code, reason = "matrices of tensors and blocks of scores are raw memory")]

use super::block_softmax::{AttentionElement, Rows, Scores, Statistics};
use crate::Tensor;
use crate::gemm::{Gemm, GemmElement, Isa, Scratch, gemm};
use crate::parallel::parallel_for;
use flambeau_core::Guarded;
use std::ops::Range;

/// Bytes of scores in a block: a fraction of L2, which also holds their gradients, keys and values.
const BLOCK: usize = 1 << 17;
/// Queries for which the microkernel of a product is well used. A causal block is processed in sub-blocks of so many queries,
/// each with the keys visible to it.
const SUB_BLOCK: usize = 32;
/// The most queries in a block.
const MAX_QUERIES: usize = 64;
/// Rows that are transposed at a time: f32 elements of a cache line.
const CACHE_LINE: usize = 16;
/// The grain size, in multiply-adds.
const WORTH_A_THREAD: usize = 1 << 18;

/// The matrices of the last two dimensions of a tensor, indexed in row-major order of the other dimensions.
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

    fn matrix(&self, mut index: usize) -> Matrix<T> {
        let outer = self.sizes.len() - 2;
        let mut offset = 0;
        for (size, stride) in self.sizes[..outer].iter().zip(self.strides).rev() {
            offset += (index % *size as usize) as isize * *stride as isize;
            index /= *size as usize;
        }
        let strides = [self.strides[outer] as isize, self.strides[outer + 1] as isize];
        Matrix { ptr: self.first.wrapping_offset(offset), strides }
    }
}

#[derive(Clone, Copy)]
struct Matrix<T> {
    ptr: *mut T,
    strides: [isize; 2],
}

impl<T> Matrix<T> {
    /// Without the first rows.
    fn below(self, row: usize) -> Self {
        Matrix { ptr: self.ptr.wrapping_offset(row as isize * self.strides[0]), ..self }
    }

    /// Without the first columns.
    fn right_of(self, column: usize) -> Self {
        self.transposed().below(column).transposed()
    }

    fn transposed(self) -> Self {
        Matrix { strides: [self.strides[1], self.strides[0]], ..self }
    }
}

/// `c = alpha * a b + beta * c`, where `c` is `m` by `n` and the inner dimension `k`.
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
    let (a, b, c, addend) = (a.ptr, b.ptr, c.ptr, None);
    let product = Gemm { m, n, k, a, a_strides, b, b_strides, c, c_strides, alpha, beta, addend };
    // SAFETY: the caller's conditions.
    unsafe { gemm(Isa::detected(), &product) }
}

/// The operands and sizes of a call.
pub(super) struct Attention<'a, T> {
    pub(super) query: Batch<'a, T>,
    pub(super) key: Batch<'a, T>,
    pub(super) value: Batch<'a, T>,
    pub(super) bias: Option<Batch<'a, T>>,
    /// For each query the maximum of its scores, and the inverse of the sum of their exponentials; contiguous.
    pub(super) max_score: Batch<'a, T>,
    pub(super) inverse: Batch<'a, T>,
    pub(super) heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) depth: usize,
    pub(super) width: usize,
    pub(super) is_causal: bool,
    pub(super) scale: f64,
}

impl<T: GemmElement<Scalar = T> + AttentionElement> Attention<'_, T> {
    /// The queries of a block, by sizes alone.
    fn rows(&self) -> usize {
        let fitting = BLOCK / (self.keys * size_of::<T>()).max(1);
        (fitting / SUB_BLOCK * SUB_BLOCK).clamp(SUB_BLOCK, MAX_QUERIES)
    }

    fn blocks(&self) -> usize {
        self.queries.div_ceil(self.rows())
    }

    /// The queries of a block, and the number of keys visible to any of them.
    fn block(&self, index: usize) -> (Range<usize>, usize) {
        let first = index * self.rows();
        let last = (first + self.rows()).min(self.queries);
        (first..last, if self.is_causal { self.keys.min(last) } else { self.keys })
    }

    /// The sub-blocks of the queries of a block, relative to its first, and the number of keys visible to any query of each.
    fn sub_blocks(&self, queries: &Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> {
        let (first, n, all, causal) = (queries.start, queries.len(), self.keys, self.is_causal);
        (0..n).step_by(if causal { SUB_BLOCK } else { n.max(1) }).map(move |start| {
            let end = if causal { n.min(start + SUB_BLOCK) } else { n };
            (start..end, if causal { all.min(first + end) } else { all })
        })
    }

    /// Ranges of keys, and the first query, relative to the block, of the sub-blocks to which they are visible.
    fn key_parts(&self, queries: &Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.sub_blocks(queries).scan(0, |done, (sub_block, keys)| {
            let start = std::mem::replace(done, keys);
            Some((start..keys, sub_block.start))
        })
    }

    /// The products of the queries of each sub-block and the keys visible to it: `to = alpha * of * with^T + beta * to`.
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
        for (keys, first) in self.key_parts(queries) {
            let (with, to) = (with.below(first).transposed(), to.right_of(first));
            let operands = [of.below(keys.start), with, to.below(keys.start)];
            // SAFETY: the caller's conditions.
            unsafe { multiply([keys.len(), queries.len() - first, depth], operands, alpha, beta) }
        }
    }

    /// For each query of a block the sum over the keys visible to it: `to = alpha * block^T * of`.
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
        for (sub_block, keys) in self.sub_blocks(queries) {
            let (weights, to) = (block.right_of(sub_block.start).transposed(), to.below(sub_block.start));
            // SAFETY: the caller's conditions.
            unsafe { multiply([sub_block.len(), width, keys], [weights, of, to], alpha, T::from_f64(0.0)) }
        }
    }

    /// For each key the sum over the queries of a block to which it is visible: `to = alpha * block * of + beta * to`.
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
        for (keys, first) in self.key_parts(queries) {
            let (block, of) = (block.below(keys.start).right_of(first), of.below(first));
            let operands = [block, of, to.below(keys.start)];
            // SAFETY: the caller's conditions.
            unsafe { multiply([keys.len(), width, queries.len() - first], operands, alpha, beta) }
        }
    }

    /// A distance between rows that is an odd number of cache lines, so that rows do not map to the same cache sets.
    fn pitch(&self) -> usize {
        let cache_line = 64 / size_of::<T>();
        (self.rows().min(self.queries).div_ceil(cache_line) | 1) * cache_line
    }

    fn statistics(&self, head: usize, query: usize) -> Statistics<T> {
        let element = |of: Batch<'_, T>| of.first.wrapping_add(head * self.queries + query);
        Statistics { max_score: element(self.max_score), inverse: element(self.inverse) }
    }

    /// The scores of a block of queries for the keys visible to it.
    ///
    /// # Safety
    /// - The operands are readable, and `ptr` takes `keys` rows.
    unsafe fn score(&self, head: usize, queries: &Range<usize>, keys: usize, ptr: *mut T) -> Scores<T> {
        let (pitch, n) = (self.pitch(), queries.len());
        let scores = Matrix { ptr, strides: [pitch as isize, 1] };
        let query = self.query.matrix(head).below(queries.start);
        let beta = T::from_f64(if self.bias.is_some() { 1.0 } else { 0.0 });
        let factors = [T::from_f64(self.scale), beta];
        // SAFETY: the caller's conditions.
        unsafe {
            if let Some(bias) = &self.bias {
                copy_transposed(bias.matrix(head).below(queries.start), scores, [keys, n]);
            }
            self.keys_by_queries(queries, self.depth, [self.key.matrix(head), query, scores], factors);
        }
        let visible_to_first = if self.is_causal { queries.start + 1 } else { keys };
        Scores { ptr, pitch, keys, queries: n, visible_to_first }
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
                unsafe { self.forward_block(head, queries, keys, buffer.as_mut_ptr(), out.matrix(head)) }
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
        let rows = Rows { ptr: out.ptr, pitch: out.strides[0], count: queries.len(), width: self.width };
        // SAFETY: the caller's conditions.
        unsafe {
            let scores = self.score(head, &queries, keys, buffer);
            T::softmax_scores(scores, statistics);
            let operands = [matrix(scores), self.value.matrix(head), out];
            self.over_keys(&queries, self.width, operands, T::from_f64(1.0));
            T::scale(rows, statistics.inverse);
        }
    }

    /// The gradients of query, key and value. Those of keys and values that are visible to no query are not written.
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
                let to = [to[0].matrix(head), to[1].matrix(head), to[2].matrix(head)];
                // Most keys are visible to the last block: it sets their gradients, the other blocks add to them.
                for index in (0..self.blocks()).rev() {
                    let beta = T::from_f64(if index + 1 == self.blocks() { 0.0 } else { 1.0 });
                    let buffers = [buffer, buffer.wrapping_add(block)];
                    // SAFETY: the caller's conditions; each head writes matrices of its own.
                    unsafe { self.backward_block(head, index, buffers, grad.matrix(head), to, beta) }
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
        [scores, score_grads]: [*mut T; 2],
        grad: Matrix<T>,
        [to_query, to_key, to_value]: [Matrix<T>; 3],
        beta: T,
    ) {
        let (queries, keys) = self.block(index);
        let (grad, to_query) = (grad.below(queries.start), to_query.below(queries.start));
        let query = self.query.matrix(head).below(queries.start);
        let (key, value) = (self.key.matrix(head), self.value.matrix(head));
        let (one, zero, scale) = (T::from_f64(1.0), T::from_f64(0.0), T::from_f64(self.scale));
        // SAFETY: the caller's conditions.
        unsafe {
            let scores = self.score(head, &queries, keys, scores);
            let weights = matrix(scores);
            let score_grads = Matrix { ptr: score_grads, ..weights };
            self.keys_by_queries(&queries, self.width, [value, grad, score_grads], [one, zero]);
            T::softmax_scores_backward(scores, self.statistics(head, queries.start), score_grads.ptr);
            self.over_queries(&queries, self.width, [weights, grad, to_value], [one, beta]);
            self.over_queries(&queries, self.depth, [score_grads, query, to_key], [scale, beta]);
            self.over_keys(&queries, self.depth, [score_grads, key, to_query], scale);
        }
    }
}

/// A block as a matrix with a row for each key.
fn matrix<T>(scores: Scores<T>) -> Matrix<T> {
    Matrix { ptr: scores.ptr, strides: [scores.pitch as isize, 1] }
}

/// `to = from^T`, with these sizes of `to`, a few rows at a time, so that all elements of a cache line of `from` are read while
/// it is in L1.
///
/// # Safety
/// - `from` is readable and `to`, with adjacent elements in its rows, writable.
unsafe fn copy_transposed<T: Copy>(from: Matrix<T>, to: Matrix<T>, [rows, columns]: [usize; 2]) {
    for first in (0..rows).step_by(CACHE_LINE) {
        for j in 0..columns {
            let column = from.below(j);
            for i in first..rows.min(first + CACHE_LINE) {
                // SAFETY: row `i`, column `j` of both.
                unsafe {
                    let value = column.ptr.offset(i as isize * column.strides[1]).read();
                    to.below(i).ptr.add(j).write(value);
                }
            }
        }
    }
}
