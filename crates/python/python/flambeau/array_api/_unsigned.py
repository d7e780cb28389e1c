"""Unsigned integers of 16, 32 and 64 bits, for which PyTorch has few operators: computed in int64.

The bits of a uint64 are those of an int64, and sums, products and powers of both have the same bits. Numbers of fewer bits are numbers of
int64 too. Where the order of elements matters, the highest bit of a uint64 is inverted, after which signed numbers are ordered as the
unsigned ones were.
"""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import dtype as DType

HIGHEST_BIT = -(2**63)
_WIDE = frozenset(types(("uint16", "uint32", "uint64")).values())


def is_wide(kind: DType) -> bool:
    return kind in _WIDE


def bits(x: Tensor) -> Tensor:
    """The elements in int64: the same modulo 2^64."""
    if not is_wide(x.dtype):
        return x
    return x.view(flambeau.int64) if x.dtype.itemsize == 8 else x.to(flambeau.int64)


def from_bits(x: Tensor, kind: DType) -> Tensor:
    """The elements of `kind` that are the same modulo two to the power of its bits."""
    if not is_wide(kind):
        return x
    return x.view(kind) if kind.itemsize == 8 else (x & (2 ** (8 * kind.itemsize) - 1)).to(kind)


def wrapped(number: int) -> int:
    """The number of int64 that is the same modulo 2^64."""
    return (number - HIGHEST_BIT) % 2**64 + HIGHEST_BIT


def sort_keys(x: Tensor) -> Tensor:
    """int64 keys that compare as the elements do."""
    return bits(x) ^ HIGHEST_BIT if is_wide(x.dtype) and x.dtype.itemsize == 8 else bits(x)


def from_keys(x: Tensor, kind: DType) -> Tensor:
    """The elements of which `sort_keys` gives `x`."""
    return from_bits(x ^ HIGHEST_BIT, kind) if is_wide(kind) and kind.itemsize == 8 else from_bits(x, kind)


def _each(function: Callable[[Tensor], Tensor], arguments: tuple[Any, ...]) -> list[Any]:
    return [function(value) if isinstance(value, Tensor) else value for value in arguments]


def as_int64_bits(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator on bits, whose result has the type of the first operand."""

    def computed(x: Tensor, *others: Any, **options: Any) -> Any:
        kind = x.dtype
        if not is_wide(kind):
            return operator(x, *others, **options)
        return from_bits(operator(*_each(bits, (x, *others)), **options), kind)

    return computed


def from_int64_bits(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator on bits, whose result has a type of its own."""

    def computed(*arguments: Any, **options: Any) -> Any:
        return operator(*_each(bits, arguments), **options)

    return computed


def as_sort_keys(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator on sort_keys, whose result is an element."""

    def computed(x: Tensor, *others: Any, **options: Any) -> Any:
        kind = x.dtype
        if not is_wide(kind):
            return operator(x, *others, **options)
        return from_keys(operator(*_each(sort_keys, (x, *others)), **options), kind)

    return computed


def from_sort_keys(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator on sort_keys, whose result has a type of its own."""

    def computed(*arguments: Any, **options: Any) -> Any:
        return operator(*_each(sort_keys, arguments), **options)

    return computed


def floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    """Quotients. Of uint64: half of the dividend divided as signed numbers, times two, and one more if the rest allows."""
    kind = x1.dtype
    if not is_wide(kind):
        return flambeau.floor_divide(x1, x2)
    dividend, divisor = bits(x1), bits(x2)
    if kind.itemsize < 8:
        return from_bits(flambeau.floor_divide(dividend, divisor), kind)
    # A divisor with the highest bit is contained once or not at all.
    is_large = divisor < 0
    half = (dividend >> 1) & ~HIGHEST_BIT
    quotient = flambeau.floor_divide(half, flambeau.where(is_large, 1, divisor)) << 1
    quotient = flambeau.where(is_large, 0, quotient)
    rest = dividend - quotient * divisor
    return from_bits(quotient + (sort_keys(from_bits(rest, kind)) >= sort_keys(x2)), kind)


def remainder(x1: Tensor, x2: Tensor) -> Tensor:
    """What the quotient leaves."""
    kind = x1.dtype
    if not is_wide(kind):
        return flambeau.remainder(x1, x2)
    return from_bits(bits(x1) - bits(floor_divide(x1, x2)) * bits(x2), kind)


def right_shift(x1: Tensor, x2: Tensor) -> Tensor:
    """The bits shifted right, with zeros from the left."""
    kind = x1.dtype
    if not is_wide(kind):
        return flambeau.bitwise_right_shift(x1, x2)
    shift = bits(x2)
    shifted = flambeau.bitwise_right_shift(bits(x1), shift)
    if kind.itemsize < 8:
        return from_bits(shifted, kind)
    # The signed shift fills with the highest bit: the ones that it made are removed.
    filled = flambeau.bitwise_right_shift(flambeau.full_like(shifted, HIGHEST_BIT), shift) << 1
    none_left = (shift < 0) | (shift > 63)
    return from_bits(flambeau.where(none_left, 0, shifted & ~filled), kind)
