"""Reductions and normalisations of the elements that a mask selects: torch's `masked`, of plain tensors.

Elements where the mask is False are replaced by the value that does not change the result, such as 0 in a sum. `mask` is broadcast.
"""

from __future__ import annotations

import math

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Dims = int | Sequence[int] | None

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def _dims(input: Tensor, dim: Dims) -> list[int]:
    """The dimensions as a list, all where none is given."""
    if dim is None:
        return list(range(input.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """The input with a value where the mask is False."""
    if mask is None:
        return input
    chosen = mask if mask.dtype == flambeau.bool else mask.to(flambeau.bool)
    return flambeau.where(chosen, input, flambeau.full_like(input, value))


def _lowest(dtype: flambeau.dtype) -> float:
    return -math.inf if dtype.is_floating_point else 0 if dtype == flambeau.bool else flambeau.iinfo(dtype).min


def _highest(dtype: flambeau.dtype) -> float:
    return math.inf if dtype.is_floating_point else 1 if dtype == flambeau.bool else flambeau.iinfo(dtype).max


def _summed_dtype(input: Tensor, dtype: flambeau.dtype | None) -> flambeau.dtype:
    """That of a sum: integers are summed in int64."""
    if dtype is not None:
        return dtype
    return input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else flambeau.int64


def _typed(input: Tensor, dtype: flambeau.dtype | None) -> Tensor:
    return input if dtype is None else input.to(dtype)


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the selected elements."""
    kind = _summed_dtype(input, dtype)
    return flambeau.sum(_filled(input.to(kind), mask, 0), _dims(input, dim), keepdim)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product of the selected elements."""
    result = _filled(input.to(_summed_dtype(input, dtype)), mask, 1)
    for axis in sorted((axis % max(input.dim(), 1) for axis in _dims(input, dim)), reverse=True):
        result = result.prod(axis, keepdim=keepdim)
    return result


def _count(input: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool) -> Tensor:
    """How many elements are selected."""
    ones = flambeau.ones_like(input, dtype=flambeau.int64).detach()
    return flambeau.sum(_filled(ones, mask, 0), _dims(input, dim), keepdim)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the selected elements; NaN where there are none."""
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, mask, dim, keepdim)


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The largest of the selected elements."""
    input = _typed(input, dtype)
    return flambeau.amax(_filled(input, mask, _lowest(input.dtype)), _dims(input, dim), keepdim)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest of the selected elements."""
    input = _typed(input, dtype)
    return flambeau.amin(_filled(input, mask, _highest(input.dtype)), _dims(input, dim), keepdim)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The index of the largest of the selected elements, in the dtype of the input."""
    input = _typed(input, dtype)
    return flambeau.argmax(_filled(input, mask, _lowest(input.dtype)), dim, bool(keepdim)).to(input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The index of the smallest of the selected elements, in the dtype of the input."""
    input = _typed(input, dtype)
    return flambeau.argmin(_filled(input, mask, _highest(input.dtype)), dim, bool(keepdim)).to(input.dtype)


def cumsum(input: Tensor, dim: int, *, dtype: flambeau.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The sums of the selected elements up to each one."""
    summed = _filled(_typed(input, dtype), mask, 0)
    return summed.cumsum(dim, dtype=summed.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: flambeau.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The products of the selected elements up to each one."""
    multiplied = _filled(_typed(input, dtype), mask, 1)
    return multiplied.cumprod(dim, dtype=multiplied.dtype)


def softmax(input: Tensor, dim: int, *, dtype: flambeau.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the selected elements; 0 for the others, and NaN where none is selected."""
    return _filled(_typed(input, dtype), mask, -math.inf).softmax(dim)


def log_softmax(input: Tensor, dim: int, *, dtype: flambeau.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of the softmax of the selected elements."""
    return _filled(_typed(input, dtype), mask, -math.inf).log_softmax(dim)


def softmin(input: Tensor, dim: int, *, dtype: flambeau.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the negated selected elements."""
    return (-_filled(_typed(input, dtype), mask, math.inf)).softmax(dim)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of the exponentials of the selected elements."""
    values = _typed(input, dtype)
    if not (values.dtype.is_floating_point or values.dtype.is_complex):
        values = values.to(flambeau.get_default_dtype())
    return flambeau.logsumexp(_filled(values, mask, -math.inf), _dims(input, dim), keepdim)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: flambeau.dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of two exponentials, of which each counts where its mask is True."""
    first = _filled(_typed(input, dtype), input_mask, -math.inf)
    return flambeau.logaddexp(first, _filled(_typed(other, dtype), other_mask, -math.inf))


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: flambeau.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The norm of the selected elements."""
    order = 2.0 if ord is None else float(ord)
    filled = _filled(_typed(input, dtype), mask, math.inf if order < 0 else 0)
    return flambeau.linalg.vector_norm(filled, order, _dims(input, dim), bool(keepdim))


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The selected elements divided by their norm; 0 for the others."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(_typed(input, dtype), mask, 0) / length.clamp(min=eps)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: flambeau.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The median of the selected elements, the lower one of two; NaN where there are none, which integers cannot be."""
    input = _typed(input, dtype)
    numbers = input if input.is_floating_point() else input.to(flambeau.float64)
    found = flambeau.nanmedian(_filled(numbers, mask, math.nan), dim, keepdim).values
    if input.is_floating_point():
        return found
    if bool(found.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return found.to(input.dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | float | None = None,
    keepdim: bool = False,
    dtype: flambeau.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the selected elements."""
    if unbiased is not None and correction is not None:
        raise ValueError("Only one of unbiased and correction may be given")
    less = correction if correction is not None else float(unbiased if unbiased is not None else True)
    kind = dtype or (input.dtype if input.dtype.is_floating_point else flambeau.get_default_dtype())
    input = input.to(kind)
    centre = mean(input, dim, keepdim=True, mask=mask)
    squares = sum((input - centre).square(), dim, keepdim=keepdim, mask=mask)
    count = _count(input, mask, dim, keepdim).to(kind) - less
    return squares / count.clamp(min=0)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool = False,
    dtype: flambeau.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the selected elements."""
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()
