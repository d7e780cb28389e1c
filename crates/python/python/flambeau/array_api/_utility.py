"""Utility functions of the standard."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import axis_of
from ._statistical import reduced
from ._unsigned import as_int64_bits, from_int64_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._arguments import Axes

__all__ = ["all", "any", "diff"]


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true."""
    return reduced("all", from_int64_bits(flambeau.ne)(x, 0), axis, keepdims, flambeau.all)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true."""
    return reduced("any", from_int64_bits(flambeau.ne)(x, 0), axis, keepdims, flambeau.any)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times."""
    return as_int64_bits(flambeau.diff)(x, n, axis_of("diff", x, axis), prepend, append)
