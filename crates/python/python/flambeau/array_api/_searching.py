"""Functions of the standard that search for elements."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import axis_of, operands
from ._statistical import reduced
from ._unsigned import as_int64_bits, from_int64_bits, from_sort_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._arguments import Axes, Operand

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]


def _extreme(name: str, operator: Callable[..., Tensor], x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        return operator(x, axis_of(name, x, axis), keepdims)
    found = operator(x.reshape(-1), 0)
    return found.reshape((1,) * x.ndim) if keepdims else found


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first maximum, of the flattened array or along an axis."""
    return _extreme("argmax", from_sort_keys(flambeau.argmax), x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first minimum, of the flattened array or along an axis."""
    return _extreme("argmin", from_sort_keys(flambeau.argmin), x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0."""
    return reduced("count_nonzero", from_int64_bits(flambeau.ne)(x, 0), axis, keepdims, flambeau.sum)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not 0, an array for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: expected at least one dimension but got 0")
    return tuple(from_int64_bits(flambeau.nonzero)(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Tensor | int | float, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """The indices before which the elements of `x2` would keep `x1` sorted; `sorter` is the order in which `x1` is."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: expected side to be 'left' or 'right' but got {side!r}")
    edges, values = operands(x1, x2)
    order = None if sorter is None else sorter.to(flambeau.int64)
    return from_sort_keys(flambeau.searchsorted)(edges, values, side=side, sorter=order)


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """The elements of `x1` where the condition is true, and of `x2` elsewhere."""
    chosen, other = operands(x1, x2)
    return as_int64_bits(lambda chosen, other: flambeau.where(condition, chosen, other))(chosen, other)
