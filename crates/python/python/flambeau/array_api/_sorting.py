"""Sorting functions of the standard."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import axis_of
from ._unsigned import from_keys, sort_keys

__all__ = ["argsort", "sort"]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the array along an axis; equal elements stay in their order."""
    return flambeau.sort(sort_keys(x), stable=True, dim=axis_of("argsort", x, axis), descending=descending)[1]


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along an axis; equal elements stay in their order."""
    found = flambeau.sort(sort_keys(x), stable=True, dim=axis_of("sort", x, axis), descending=descending)[0]
    return from_keys(found, x.dtype)
