"""Lengths, distances and angles of vectors."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor


def broadcast(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the shape that they have together; the same tensors where they have it already."""
    if x1.is_same_size(x2):
        return x1, x2
    dims = max(x1.ndim, x2.ndim)
    pairs = zip(*([1] * (dims - x.ndim) + list(x.shape) for x in (x1, x2)))
    shape = [second if first == 1 else first for first, second in pairs]
    return x1.expand(shape), x2.expand(shape)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along `dim`, divided by their `p`-norm, but by no less than `eps`."""
    length = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return flambeau.div(input, length, out=out) if out is not None else input / length


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The `p`-norm of `x1 - x2 + eps` along the last dimension."""
    return flambeau.pairwise_distance(x1, x2, p, eps, keepdim)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; lengths count as no less than `eps`."""
    x1, x2 = broadcast(x1, x2)
    first = x1 / x1.norm(2, dim, keepdim=True).clamp_min(eps)
    second = x2 / x2.norm(2, dim, keepdim=True).clamp_min(eps)
    return (first * second).sum(dim)
