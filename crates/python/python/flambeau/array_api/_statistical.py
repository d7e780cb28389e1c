"""Sums, products, extremes and moments of the standard."""

from __future__ import annotations

from functools import partial

import flambeau
from flambeau import Tensor

from ._arguments import axes_of, default_unsigned, is_integer, is_unsigned, one_axis
from ._unsigned import as_int64_bits, as_sort_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import dtype as DType

    from ._arguments import Axes

__all__ = ["cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]


def reduced(name: str, x: Tensor, axis: Axes, keepdims: bool, operator: Callable[[Tensor, list[int], bool], Tensor]) -> Tensor:
    """A reduction over all axes or some. Over none, it is one over an axis of size 1, since PyTorch takes no axes for all."""
    axes = axes_of(name, x, axis)
    return operator(x, axes, keepdims) if axes else operator(x.unsqueeze(-1), [x.ndim], False)


def _summed_type(x: Tensor, dtype: DType | None) -> DType:
    """The type of sums and products: integers become default integers, so that fewer overflow."""
    if dtype is not None:
        return dtype
    if is_unsigned(x.dtype):
        return default_unsigned()
    return flambeau.int64 if is_integer(x.dtype) or x.dtype == flambeau.bool else x.dtype


def _sums(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return flambeau.sum(x, axes, keepdims, dtype=x.dtype)


def _products(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = flambeau.prod(x, axis, keepdims, dtype=x.dtype)
    return x


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements."""
    kind = _summed_type(x, dtype)
    return reduced("sum", x.to(kind), axis, keepdims, as_int64_bits(_sums))


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product of the elements."""
    return reduced("prod", x.to(_summed_type(x, dtype)), axis, keepdims, as_int64_bits(_products))


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The maximum of the elements, NaN if one is."""
    return reduced("max", x, axis, keepdims, as_sort_keys(flambeau.amax))


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The minimum of the elements, NaN if one is."""
    return reduced("min", x, axis, keepdims, as_sort_keys(flambeau.amin))


def _floating(x: Tensor) -> Tensor:
    """Integers as floating point numbers of the default type."""
    return x if x.dtype.is_floating_point or x.dtype.is_complex else x.to(flambeau.get_default_dtype())


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean of the elements, NaN if there are none."""
    return reduced("mean", _floating(x), axis, keepdims, flambeau.mean)


def std(x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation of the elements: the root of their variance."""
    return reduced("std", _floating(x), axis, keepdims, partial(_moment, flambeau.std, correction))


def var(x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance of the elements: the sum of squares of what they differ from the mean, divided by their number less `correction`."""
    return reduced("var", _floating(x), axis, keepdims, partial(_moment, flambeau.var, correction))


def _moment(operator: Callable[..., Tensor], correction: int | float, x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return operator(x, axes, correction=correction, keepdim=keepdims)


def _running(operator: Callable[..., Tensor], x: Tensor, dim: int) -> Tensor:
    return operator(x, dim, dtype=x.dtype)


def _cumulative(
    name: str, operator: Callable[..., Tensor], initial: int, x: Tensor, axis: int | None, dtype: DType | None, include_initial: bool
) -> Tensor:
    dim = one_axis(name, x, axis)
    kind = _summed_type(x, dtype)
    result = as_int64_bits(partial(_running, operator))(x.to(kind), dim)
    if not include_initial:
        return result
    result = result.reshape(1) if result.ndim == 0 else result
    sizes: list[Any] = list(result.shape)
    sizes[dim] = 1
    return flambeau.cat([flambeau.full(sizes, initial, dtype=kind, device=x.device), result], dim)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False) -> Tensor:
    """The sums of the elements up to each one, after a 0 if `include_initial`."""
    return _cumulative("cumulative_sum", flambeau.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False) -> Tensor:
    """The products of the elements up to each one, after a 1 if `include_initial`."""
    return _cumulative("cumulative_prod", flambeau.cumprod, 1, x, axis, dtype, include_initial)
