"""Dropout: random elements, or whole channels, are set to 0, and the others scaled."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn.functional.activation import SELU_ALPHA, SELU_SCALE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements become 0 with the chance `p`."""
    _check(p)
    return (flambeau.dropout_ if inplace else flambeau.dropout)(input, p, training)


def _channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Drops whole channels of `[N, C, ...]`."""
    _check(p)
    if not training or p == 0:
        return input
    kept = flambeau.empty([*input.shape[:2], *[1] * (input.ndim - 2)], dtype=input.dtype)
    kept = kept.bernoulli_(1 - p).div_(1 - p) if p < 1 else kept.zero_()
    return input.mul_(kept) if inplace else input * kept


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of `[N, C, L]` or `[C, L]` become 0 with the chance `p`."""
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input.")
    _check(p)
    batched = input if input.ndim == 3 else input.unsqueeze(0)
    made = _channels(batched, p, training, inplace)
    return made if input.ndim == 3 else made.squeeze(0)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of `[N, C, H, W]` become 0 with the chance `p`."""
    return _channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of `[N, C, D, H, W]` or `[C, D, H, W]` become 0 with the chance `p`."""
    if input.ndim == 4:
        return _channels(input.unsqueeze(0), p, training, inplace).squeeze(0)
    return _channels(input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Elements become the lowest value of `selu` with the chance `p`; mean 0 and variance 1 stay."""
    _check(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    lowest = -SELU_ALPHA * SELU_SCALE
    kept = flambeau.empty(input.shape, dtype=input.dtype).bernoulli_(1 - p)
    scale = 1 / math.sqrt((1 - p) * (1 + p * lowest**2))
    shift = (1 - kept) * (lowest * scale) - p * lowest * scale
    kept = kept * scale
    return input.mul_(kept).add_(shift) if inplace else input * kept + shift


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels."""
    _check(p)
    return (flambeau.feature_alpha_dropout_ if inplace else flambeau.feature_alpha_dropout)(input, p, training)
