"""Attention: Vaswani et al., "Attention is all you need", 2017."""

from __future__ import annotations

import math

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

scaled_dot_product_attention = flambeau._nn.scaled_dot_product_attention
linear = flambeau._nn.linear


def float_mask(mask: Tensor | None, dtype: flambeau.dtype, name: str) -> Tensor | None:
    """A mask to add: where one of truth values says True, minus infinity."""
    if mask is None:
        return None
    if mask.dtype == flambeau.bool:
        return flambeau.zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`[length, batch, width]` of queries, keys and values to answers of that shape, and how far each weights where."""
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    batched = _check(query, key, value, embed_dim_to_check, num_heads)
    if not batched:
        query, key, value = (part.unsqueeze(1) for part in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected(query, key, value, weights, in_proj_bias)
    q = _by_head(q, num_heads)
    k = _by_head(k, num_heads) if static_k is None else _static(static_k, num_heads)
    v = _by_head(v, num_heads) if static_v is None else _static(static_v, num_heads)
    more = []
    if bias_k is not None and bias_v is not None:
        more.append([_by_head(bias.repeat(1, batch, 1), num_heads) for bias in (bias_k, bias_v)])
    if add_zero_attn:
        more.append([flambeau.zeros([batch, num_heads, 1, part.shape[-1]], dtype=part.dtype) for part in (k, v)])
    if more:
        k = flambeau.cat([k, *(added[0] for added in more)], 2)
        v = flambeau.cat([v, *(added[1] for added in more)], 2)
    causal_only = is_causal and key_padding_mask is None and not need_weights and not more
    mask = None if causal_only else _mask(attn_mask, key_padding_mask, q, k.shape[2] - len(more), len(more))
    dropout = dropout_p if training else 0.0
    if need_weights:
        answers, weights = _attention_with_weights(q, k, v, mask, dropout)
    else:
        answers, weights = scaled_dot_product_attention(q, k, v, mask, dropout, causal_only), None
    answers = answers.permute(2, 0, 1, 3).reshape(length, batch, width)
    answers = linear(answers, out_proj_weight, out_proj_bias)
    if weights is not None:
        weights = weights.mean(1) if average_attn_weights else weights
        weights = weights if batched else weights.squeeze(0)
    return (answers if batched else answers.squeeze(1)), weights


def _check(query: Tensor, key: Tensor, value: Tensor, width: int, heads: int) -> bool:
    """Whether there is a batch; errors for shapes that do not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor")
    if not query.ndim == key.ndim == value.ndim:
        raise AssertionError(
            f"For {'batched (3-D)' if query.ndim == 3 else 'unbatched (2-D)'} `query`, expected `key` and `value` to be "
            f"{query.ndim}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if query.shape[-1] != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {query.shape[-1]}")
    if width % heads != 0:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {heads}")
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    return query.ndim == 3


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weights: Any, bias: Tensor | None
) -> Sequence[Tensor]:
    """Queries, keys and values, each by its part of the weight; one product where all come from one tensor."""
    if isinstance(weights, flambeau.Tensor) and query is key and key is value:
        return linear(query, weights, bias).chunk(3, -1)
    parts = weights.chunk(3) if isinstance(weights, flambeau.Tensor) else weights
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [linear(x, weight, b) for x, weight, b in zip((query, key, value), parts, biases)]


def _by_head(part: Tensor, heads: int) -> Tensor:
    """`[length, batch, width]` as `[batch, heads, length, width / heads]`."""
    length, batch, width = part.shape
    return part.reshape(length, batch, heads, width // heads).permute(1, 2, 0, 3)


def _static(part: Tensor, heads: int) -> Tensor:
    """`[batch heads, length, width / heads]` as `[batch, heads, length, width / heads]`."""
    return part.reshape(part.shape[0] // heads, heads, *part.shape[1:])


def _mask(attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, source: int, added: int) -> Tensor | None:
    """One mask to add to `[batch, heads, length, source]`; all queries attend to the `added` positions."""
    batch, heads, length, _ = q.shape
    mask = float_mask(attn_mask, q.dtype, "attn_mask")
    if mask is not None:
        shapes = {2: (length, source), 3: (batch * heads, length, source)}
        if tuple(mask.shape) != shapes.get(mask.ndim):
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {shapes.get(mask.ndim)}."
            )
        mask = mask.reshape(batch, heads, length, source) if mask.ndim == 3 else mask.reshape(1, 1, length, source)
    padding = float_mask(padding, q.dtype, "key_padding_mask")
    if padding is not None:
        if tuple(padding.shape) != (batch, source):
            raise AssertionError(f"expecting key_padding_mask shape of {(batch, source)}, but got {tuple(padding.shape)}")
        padding = padding.reshape(batch, 1, 1, source)
        mask = padding if mask is None else mask + padding
    return mask if mask is None or added == 0 else flambeau.constant_pad_nd(mask, [0, added], 0.0)


def _attention_with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        # A query that may attend to no position has weights 0, as in the fused operator, and so are its gradients.
        fully_masked = (mask == -math.inf).all(-1, keepdim=True)
        weights = (scores + mask.masked_fill(fully_masked, 0.0)).softmax(-1).masked_fill(fully_masked, 0.0)
    weights = flambeau.dropout(weights, dropout, True) if dropout > 0.0 else weights
    return weights @ v, weights
