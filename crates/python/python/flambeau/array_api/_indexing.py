"""Functions of the standard that select elements by arrays of indices."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import axis_of, is_integer, one_axis
from ._unsigned import bits, from_bits

__all__ = ["take", "take_along_axis"]


def _from_first(name: str, indices: Tensor, size: int) -> Tensor:
    """Indices counted from the first element: negative ones count from behind."""
    if not is_integer(indices.dtype):
        raise TypeError(f"{name}: expected indices of an integer dtype but got {indices.dtype}")
    indices = bits(indices).to(flambeau.int64)
    return flambeau.where(indices < 0, indices + size, indices)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements along an axis at a vector of indices."""
    if indices.ndim != 1:
        raise ValueError(f"take: expected indices of one dimension but got {indices.ndim}")
    dim = one_axis("take", x, axis)
    return from_bits(flambeau.index_select(bits(x), dim, _from_first("take", indices, x.shape[dim])), x.dtype)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements along an axis at indices, which are given for each element along the other axes."""
    if x.ndim != indices.ndim:
        raise ValueError(f"take_along_axis: expected indices of {x.ndim} dimensions but got {indices.ndim}")
    dim = axis_of("take_along_axis", x, axis)
    others = flambeau.broadcast_shapes(x.shape[:dim] + (1,) + x.shape[dim + 1 :], indices.shape[:dim] + (1,) + indices.shape[dim + 1 :])
    sizes = [[*others[:dim], part.shape[dim], *others[dim + 1 :]] for part in (x, indices)]
    selected = _from_first("take_along_axis", indices, x.shape[dim]).expand(sizes[1])
    return from_bits(flambeau.gather(bits(x).expand(sizes[0]), dim, selected), x.dtype)
