"""Utility functions of the standard."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import axis_of
from ._statistical import reduced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._arguments import Axes

__all__ = ["all", "any", "diff"]


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true."""
    return reduced("all", x.to(flambeau.bool), axis, keepdims, flambeau.all)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true."""
    return reduced("any", x.to(flambeau.bool), axis, keepdims, flambeau.any)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times."""
    return flambeau.diff(x, n, axis_of("diff", x, axis), prepend, append)
