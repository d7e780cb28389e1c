//! Scaled dot product attention.

mod block_softmax;
mod query_blocks;
mod tiled;

pub use tiled::{tiled_attention, tiled_attention_backward};

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, ensure, shape};

const NAME: &str = "scaled_dot_product_attention";
const LOWEST: Scalar = Scalar::Float(f64::NEG_INFINITY);

fn to_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    ops::_to_copy(tensor, Some(dtype), None, None, None, false, None)
}

/// `softmax(query @ key^T * scale + mask) @ value`. Half precision is rounded once, not after each of these operators. The matrix
/// of all weights is materialized only with dropout, or if the mask has more rows or columns than the scores.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_mask: Option<&Tensor>,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<Tensor> {
    check(query, key, value, attn_mask, is_causal)?;
    ensure!(
        (0.0..=1.0).contains(&dropout_p),
        InvalidArgument("scaled_dot_product_attention", "dropout_p"),
        "dropout probability has to be between 0 and 1, but got {dropout_p}"
    );
    if matches!(query.dtype(), ScalarType::F16 | ScalarType::BF16) {
        let wide = |t: &Tensor| to_dtype(t, ScalarType::F32);
        let mask = attn_mask.map(|m| if m.dtype() == query.dtype() { wide(m) } else { Ok(m.clone()) });
        let (q, k, v, mask) = (wide(query)?, wide(key)?, wide(value)?, mask.transpose()?);
        let mask = mask.as_ref();
        let answer = scaled_dot_product_attention(&q, &k, &v, mask, dropout_p, is_causal, scale, enable_gqa)?;
        return to_dtype(&answer, query.dtype());
    }
    let (key, value) = if enable_gqa {
        (repeat_heads(key, query)?, repeat_heads(value, query)?)
    } else {
        (key.clone(), value.clone())
    };
    let scale = scale.unwrap_or_else(|| 1.0 / (last(query, 1) as f64).sqrt());
    if dropout_p == 0.0
        && let Some(sizes) = scores_sizes([query, &key, &value], attn_mask)?
    {
        return tiled([query, &key, &value], attn_mask, is_causal, scale, sizes);
    }
    let weights = attention_weights(query, &key, attn_mask, is_causal, scale)?;
    let weights = if dropout_p > 0.0 { ops::dropout(&weights, dropout_p, true)? } else { weights };
    ops::matmul(&weights, &value)
}

/// The sizes of all scores, or `None` if the mask has more rows or columns than they.
fn scores_sizes([query, key, value]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<Option<DimVec>> {
    let outer = |t: &Tensor| DimVec::from_slice(&t.sizes()[..t.dim() - 2]);
    let mut sizes = shape::broadcast(&shape::broadcast(&outer(query), &outer(key))?, &outer(value))?;
    sizes.extend([last(query, 2), last(key, 2)]);
    let Some(mask) = mask else { return Ok(Some(sizes)) };
    let inner = &sizes[sizes.len() - 2..];
    let fits = mask.sizes().iter().rev().zip(inner.iter().rev()).all(|(own, size)| own == size || *own == 1);
    Ok(if fits { Some(shape::broadcast(&sizes, mask.sizes())?) } else { None })
}

/// Attention by query blocks, of operands expanded to the outer dimensions of `scores`.
fn tiled(
    operands: [&Tensor; 3],
    mask: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
    scores: DimVec,
) -> Result<Tensor> {
    let outer = &scores[..scores.len() - 2];
    let expanded = |t: &Tensor| {
        let sizes = [outer, &t.sizes()[t.dim() - 2..]].concat();
        if t.sizes() == sizes { Ok(t.clone()) } else { ops::expand(t, &sizes, false) }
    };
    let [query, key, value] = operands;
    let (query, key, value) = (expanded(query)?, expanded(key)?, expanded(value)?);
    let bias = match mask {
        Some(mask) => Some(ops::expand(&as_bias(mask, query.dtype())?, &scores, false)?),
        None => None,
    };
    Ok(ops::_tiled_attention(&query, &key, &value, bias.as_ref(), is_causal, scale)?.0)
}

/// A mask as a bias, which is added to the scores: minus infinity where a mask of bools is false.
fn as_bias(mask: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if mask.dtype() != ScalarType::Bool {
        return Ok(mask.clone());
    }
    let zero = ops::zeros(&[], Some(dtype), None, Some(mask.device()), None)?;
    ops::where_scalarother(mask, &zero, LOWEST)
}

/// The matrix of all weights: the softmax of the scores over the keys.
///
/// # Errors
/// Those of the operators of which it is composed.
pub fn attention_weights(
    query: &Tensor,
    key: &Tensor,
    mask: Option<&Tensor>,
    is_causal: bool,
    scale: f64,
) -> Result<Tensor> {
    let scaled = ops::mul_scalar(query, Scalar::Float(scale))?;
    let mut scores = ops::matmul(&scaled, &ops::transpose_int(key, -2, -1)?)?;
    if is_causal {
        scores = masked(&scores, &causal(&scores)?)?;
    }
    match mask {
        Some(mask) => masked_softmax(&masked(&scores, mask)?),
        None => ops::softmax_int(&scores, -1, None),
    }
}

/// The size of a dimension, counted from the end: the last one is 1.
fn last(tensor: &Tensor, back: usize) -> i64 {
    tensor.sizes()[tensor.dim() - back]
}

fn check(query: &Tensor, key: &Tensor, value: &Tensor, mask: Option<&Tensor>, is_causal: bool) -> Result<()> {
    for (which, tensor) in [("query", query), ("key", key), ("value", value)] {
        ensure!(
            tensor.dim() >= 2,
            Shape(NAME, which),
            "Expected query, key, and value to all be at least 2 dimensional, but got {which} of sizes {:?}",
            tensor.sizes()
        );
        ensure!(
            tensor.dtype() == query.dtype() && tensor.is_floating_point(),
            Dtype(NAME, which),
            "Expected query, key, and value to have the same floating point dtype, but got {which} of {} and query \
             of {}",
            tensor.dtype(),
            query.dtype()
        );
    }
    ensure!(
        last(query, 1) == last(key, 1) && last(key, 2) == last(value, 2),
        Shape(NAME, "key"),
        "expected a key of the width of the query for each value but got query {:?}, key {:?}, value {:?}",
        query.sizes(),
        key.sizes(),
        value.sizes()
    );
    let Some(mask) = mask else { return Ok(()) };
    ensure!(
        !is_causal,
        InvalidArgument(NAME, "attn_mask"),
        "Explicit attn_mask should not be set when is_causal=True"
    );
    ensure!(
        mask.dtype() == ScalarType::Bool || mask.dtype() == query.dtype(),
        Dtype(NAME, "attn_mask"),
        "Expected attn_mask dtype to be bool or to match query dtype, but got {} and query of {}",
        mask.dtype(),
        query.dtype()
    );
    Ok(())
}

/// Repeats each head of `tensor` for every head of `query` that it serves (grouped query attention).
fn repeat_heads(tensor: &Tensor, query: &Tensor) -> Result<Tensor> {
    let heads = |t: &Tensor| if t.dim() >= 3 { last(t, 3) } else { 0 };
    let (own, needed) = (heads(tensor), heads(query));
    ensure!(
        own > 0 && needed % own == 0,
        Shape(NAME, "key"),
        "Number of heads in key and value must divide the number of heads in query, but got {own} and {needed}"
    );
    ops::repeat_interleave_self_int(tensor, needed / own, Some(-3), None)
}

/// The causal mask: query `i` attends to keys `0..=i`.
fn causal(scores: &Tensor) -> Result<Tensor> {
    let sizes = [last(scores, 2), last(scores, 1)];
    ops::tril(&ops::ones(&sizes, Some(ScalarType::Bool), None, Some(scores.device()), None)?, 0)
}

/// Scores with minus infinity where a mask of bools is false, or with a mask of numbers added.
fn masked(scores: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if mask.dtype() == ScalarType::Bool {
        return ops::where_scalarother(mask, scores, LOWEST);
    }
    ops::add_tensor(scores, mask, Scalar::Int(1))
}

/// The softmax of the last dimension, and zeros in rows where all scores are minus infinity. These rows are replaced before the
/// softmax and not only after it, so that its gradient has no NaN.
fn masked_softmax(scores: &Tensor) -> Result<Tensor> {
    let fully_masked = ops::all_dim(&ops::eq_scalar(scores, LOWEST)?, -1, true)?;
    let finite = ops::masked_fill_scalar(scores, &fully_masked, Scalar::Int(0))?;
    ops::masked_fill_scalar(&ops::softmax_int(&finite, -1, None)?, &fully_masked, Scalar::Int(0))
}
