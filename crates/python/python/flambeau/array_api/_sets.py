"""Set functions of the standard. Elements are equal if `equal` says so: -0 and 0 are, two NaN are not."""

from __future__ import annotations

from typing import NamedTuple

import flambeau
from flambeau import Tensor

from ._arguments import operands
from ._unsigned import from_keys, from_int64_bits, sort_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def _order(flat: Tensor) -> Tensor:
    """The indices that sort a vector, equal elements in their order; complex numbers by their real, then their imaginary parts."""
    if not flat.dtype.is_complex:
        return flambeau.sort(flat, stable=True, dim=0)[1]
    by_imaginary = _order(flat.imag)
    return by_imaginary[_order(flat.real[by_imaginary])]


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements, the index of the first of each, the index of each element among them, and their counts."""
    flat = sort_keys(x.detach().reshape(-1))
    order = _order(flat)
    in_order = flat[order]
    is_first = flambeau.ones_like(flat, dtype=flambeau.bool)
    is_first[1:] = in_order[1:] != in_order[:-1]
    starts = flambeau.nonzero(is_first).reshape(-1)
    inverse = flambeau.empty_like(order)
    inverse[order] = flambeau.cumsum(is_first, 0) - 1
    ends = flambeau.cat([starts[1:], flambeau.full((min(1, len(starts)),), len(order), dtype=flambeau.int64, device=x.device)])
    first = order[starts]
    return UniqueAll(from_keys(sort_keys(x.reshape(-1))[first], x.dtype), first, inverse.reshape(x.shape), ends - starts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements and their counts."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements, and the index of each element among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements."""
    return unique_all(x).values


def isin(x1: Tensor | Any, x2: Tensor | Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of `x1` is one of `x2`."""
    elements, others = operands(x1, x2)
    if not elements.dtype.is_complex:
        return from_int64_bits(flambeau.isin)(elements, others, invert=invert)
    # Equal elements have the same index among the distinct ones of both.
    index = unique_inverse(flambeau.cat([elements.reshape(-1), others.reshape(-1)])).inverse_indices
    found = flambeau.isin(index[: elements.numel()], index[elements.numel() :], invert=invert)
    return found.reshape(elements.shape)
