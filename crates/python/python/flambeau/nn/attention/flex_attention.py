"""Attention whose scores are changed and masked by functions of their indices: computed in full, one score for each pair."""

from __future__ import annotations

import math

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from flambeau import Tensor

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Masks nothing."""
    return flambeau.ones(flambeau.broadcast_shapes(batch.shape, head.shape, token_q.shape, token_kv.shape), dtype=flambeau.bool)


def _noop_score(score: Tensor, batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    return score


def _indices(*sizes: int) -> list[Tensor]:
    """The indices of each dimension, in the shape that broadcasts with the others."""
    return [flambeau.arange(size).reshape([-1 if d == dim else 1 for d in range(len(sizes))]) for dim, size in enumerate(sizes)]


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The mask, or the scores, that a function gives for all indices."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_indices(*sizes)).expand(sizes)


class BlockMask:
    """A mask as its function."""

    def __init__(self, seq_lengths: tuple[int, int], mask_mod: Callable[..., Tensor], B: int, H: int, block_size: Any) -> None:
        self.seq_lengths, self.mask_mod, self.BLOCK_SIZE = seq_lengths, mask_mod, block_size
        self.shape = (B, H, *seq_lengths)

    def to_dense(self) -> Tensor:
        """The mask as a tensor."""
        return create_mask(self.mask_mod, *self.shape)

    def to(self, device: Any) -> BlockMask:
        """The mask itself."""
        return self

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def create_block_mask(
    mask_mod: Callable[..., Tensor],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: Any = 128,
    _compile: bool = False,
    **options: Any,
) -> BlockMask:
    """A mask of a function of the indices."""
    return BlockMask((Q_LEN, KV_LEN), mask_mod, B or 1, H or 1, BLOCK_SIZE)


def and_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """What no function masks out."""

    def both(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        seen = mask_mods[0](b, h, q, kv)
        for mask in mask_mods[1:]:
            seen = seen & mask(b, h, q, kv)
        return seen

    return both


def or_masks(*mask_mods: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """What not every function masks out."""

    def either(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        seen = mask_mods[0](b, h, q, kv)
        for mask in mask_mods[1:]:
            seen = seen | mask(b, h, q, kv)
        return seen

    return either


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    **options: Any,
) -> Any:
    """Attention of `[batch, heads, queries, size]`, with scores changed by `score_mod` and masked by `block_mask`."""
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.mT * factor
    indices = _indices(*scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *indices)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.mask_mod(*indices), float("-inf"))
    lse = scores.logsumexp(-1, keepdim=True)
    # A query that sees no key gives 0.
    weights = (scores - lse.masked_fill(lse == float("-inf"), 0.0)).exp()
    output = weights.to(value.dtype) @ value
    return (output, lse.squeeze(-1)) if return_lse else output
