//! The operators of attention by query blocks: checks of their operands, allocation of results, and guards.
#![expect(unsafe_code, reason = "operands reach the blocks as raw memory, under guards")]

use super::query_blocks::{Attention, Batch};
use crate::structured::{TensorSpec, with_scratch};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, Guarded, Result, Scalar, ScalarType, ensure, shape};

const NAME: &str = "_tiled_attention";
const BACKWARD: &str = "_tiled_attention_backward";

/// The operands and arguments of both the forward and the backward operator.
#[derive(Clone, Copy)]
struct Call<'a> {
    query: &'a Tensor,
    key: &'a Tensor,
    value: &'a Tensor,
    bias: Option<&'a Tensor>,
    is_causal: bool,
    scale: f64,
}

impl<'a> Call<'a> {
    fn sizes(of: &Tensor) -> (&[i64], [i64; 2]) {
        let (outer, inner) = of.sizes().split_at(of.dim() - 2);
        (outer, [inner[0], inner[1]])
    }

    fn check(&self, name: &str) -> Result<()> {
        let Call { query, key, value, .. } = self;
        let dtype = query.dtype();
        ensure!(
            matches!(dtype, ScalarType::F32 | ScalarType::F64),
            NotImplemented,
            operator = name,
            argument = "query",
            "\"{name}\" not implemented for '{dtype}'"
        );
        let three = [query, key, value];
        ensure!(
            three.iter().all(|t| t.dim() >= 2),
            Shape(name, "query"),
            "expected query, key and value of at least 2 dimensions but got [{}, {}, {}]",
            query.signature(),
            key.signature(),
            value.signature()
        );
        let ((outer, [rows, depth]), (key_outer, [keys, key_depth])) = (Self::sizes(query), Self::sizes(key));
        let (value_outer, [values, _]) = Self::sizes(value);
        ensure!(
            (outer, depth, outer, keys) == (key_outer, key_depth, value_outer, values),
            Shape(name, "query"),
            "expected query, key and value of the same outer dimensions, a key of the width of the query for each \
             value, but got query {:?}, key {:?}, value {:?}",
            query.sizes(),
            key.sizes(),
            value.sizes()
        );
        for tensor in [Some(key), Some(value), self.bias.as_ref()].into_iter().flatten() {
            like_query(name, query, tensor)?;
        }
        let scores = [outer, &[rows, keys]].concat();
        ensure!(
            self.bias.is_none_or(|bias| bias.sizes() == scores),
            Shape(name, "attn_bias"),
            "expected attn_bias of the sizes of the scores, {scores:?}, but got {:?}",
            self.bias.map(Tensor::sizes)
        );
        Ok(())
    }

    /// The sizes of the result.
    fn result(&self) -> DimVec {
        let mut sizes = DimVec::from_slice(self.query.sizes());
        sizes[self.query.dim() - 1] = Self::sizes(self.value).1[1];
        sizes
    }

    /// The sizes of the statistics.
    fn queries(&self) -> &'a [i64] {
        &self.query.sizes()[..self.query.dim() - 1]
    }

    fn reads(&self) -> Vec<&'a Tensor> {
        [Some(self.query), Some(self.key), Some(self.value), self.bias].into_iter().flatten().collect()
    }

    fn blocks<T>(
        &self,
        guarded: Guarded<'_>,
        max_score: &'a Tensor,
        inverse: &'a Tensor,
    ) -> Attention<'a, T> {
        let batch = |tensor| Batch::new(guarded, tensor);
        let ((outer, [queries, depth]), [keys, width]) = (Self::sizes(self.query), Self::sizes(self.value).1);
        Attention {
            query: batch(self.query),
            key: batch(self.key),
            value: batch(self.value),
            bias: self.bias.map(batch),
            max_score: batch(max_score),
            inverse: batch(inverse),
            heads: shape::product(outer) as usize,
            queries: queries as usize,
            keys: keys as usize,
            depth: depth as usize,
            width: width as usize,
            is_causal: self.is_causal,
            scale: self.scale,
        }
    }

    /// Whether every key is visible to at least one query.
    fn sees_all(&self) -> bool {
        let [queries, keys] = [self.query, self.key].map(|t| Self::sizes(t).1[0]);
        queries > 0 && (!self.is_causal || queries >= keys)
    }
}

fn like_query(name: &str, query: &Tensor, tensor: &Tensor) -> Result<()> {
    ensure!(
        (tensor.dtype(), tensor.device()) == (query.dtype(), query.device()),
        Dtype(name),
        "expected tensors of the type and on the device of query, but got {} beside {}",
        tensor.signature(),
        query.signature()
    );
    Ok(())
}

/// An output whose dimensions have the memory order of those of `tensor`, the last one innermost: for heads that are views of one
/// projection, the heads of the result can be merged by a view.
fn laid_out_like(tensor: &Tensor, sizes: &[i64]) -> TensorSpec {
    let outer = sizes.len() - 1;
    let mut order: Vec<usize> = (0..outer).collect();
    if tensor.strides()[..outer].iter().all(|&stride| stride > 0) {
        order.sort_by_key(|&dim| std::cmp::Reverse(tensor.strides()[dim]));
    }
    let (mut strides, mut step) = (DimVec::from_elem(1, sizes.len()), sizes[outer].max(1));
    for &dim in order.iter().rev() {
        strides[dim] = step;
        step = step.saturating_mul(sizes[dim].max(1));
    }
    TensorSpec::like(tensor, sizes).with_strides(strides)
}

/// Attention, and for each query the maximum of its scores and the inverse of the sum of their exponentials.
pub fn tiled_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let call = Call { query, key, value, bias: attn_bias, is_causal, scale };
    call.check(NAME)?;
    let out = laid_out_like(query, &call.result()).allocate(NAME)?;
    let spec = TensorSpec::like(query, call.queries());
    let (max_score, inverse) = (spec.allocate(NAME)?, spec.allocate(NAME)?);
    if !query.device().is_meta() {
        with_scratch(NAME, &call.reads(), &[&out, &max_score, &inverse], |guarded| {
            dispatch_all_types!(wide_floats, query.dtype(), NAME, T => {
                // SAFETY: guards are held on all of them, and their sizes have been compared or are those of new tensors.
                unsafe { call.blocks::<T>(guarded, &max_score, &inverse).forward(Batch::new(guarded, &out)) };
                Ok(())
            })
        })?;
    }
    Ok((out, max_score, inverse))
}

/// The gradients of query, key and value.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn tiled_attention_backward(
    grad_output: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    max_score: &Tensor,
    inverse_sum: &Tensor,
    is_causal: bool,
    scale: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let call = Call { query, key, value, bias: attn_bias, is_causal, scale };
    call.check(BACKWARD)?;
    let (result, queries) = (call.result(), call.queries());
    for (tensor, sizes) in [(grad_output, &result[..]), (max_score, queries), (inverse_sum, queries)] {
        like_query(BACKWARD, query, tensor)?;
        ensure!(
            tensor.sizes() == sizes,
            Shape(BACKWARD, "grad_output"),
            "expected a gradient and statistics of the sizes of the result's, {sizes:?}, but got {:?}",
            tensor.sizes()
        );
    }
    let gradient = |like: &Tensor| laid_out_like(like, like.sizes()).allocate(BACKWARD);
    let to = [gradient(query)?, gradient(key)?, gradient(value)?];
    if query.device().is_meta() {
        let [query, key, value] = to;
        return Ok((query, key, value));
    }
    if !call.sees_all() {
        ops::fill__scalar(&to[1], Scalar::Int(0))?;
        ops::fill__scalar(&to[2], Scalar::Int(0))?;
    }
    let (max_score, inverse) = (max_score.contiguous()?, inverse_sum.contiguous()?);
    let mut reads = call.reads();
    reads.extend([grad_output, &max_score, &inverse]);
    with_scratch(BACKWARD, &reads, &[&to[0], &to[1], &to[2]], |guarded| {
        dispatch_all_types!(wide_floats, query.dtype(), BACKWARD, T => {
            // SAFETY: guards are held on all of them, and their sizes have been compared or are those of new tensors.
            unsafe {
                let batch = |tensor| Batch::new(guarded, tensor);
                call.blocks::<T>(guarded, &max_score, &inverse).backward(batch(grad_output), to.each_ref().map(batch))
            };
            Ok(())
        })
    })?;
    let [query, key, value] = to;
    Ok((query, key, value))
}
