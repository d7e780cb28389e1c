"""Masks of attention that are described by sizes."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor

__all__ = ["causal_lower_right", "causal_upper_left"]


def causal_upper_left(*size: int) -> Tensor:
    """Each query sees the keys up to its own index."""
    return flambeau.ones(size, dtype=flambeau.bool).tril()


def causal_lower_right(*size: int) -> Tensor:
    """The last query sees all keys, each one before it one less."""
    return flambeau.ones(size, dtype=flambeau.bool).tril(size[1] - size[0])
