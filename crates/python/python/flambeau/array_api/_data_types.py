"""Data types of the standard: conversion, limits, kinds and promotion."""

from __future__ import annotations

from typing import NamedTuple

import flambeau
from flambeau import Tensor

from ._arguments import BOOLEAN, COMPLEX, REAL, SIGNED, UNSIGNED, common_type, types, is_integer, real_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import device as Device, dtype as DType

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS = {
    "bool": BOOLEAN,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": SIGNED + UNSIGNED + REAL + COMPLEX,
}


class FloatLimits(NamedTuple):
    """The limits of floating point numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerLimits(NamedTuple):
    """The limits of integers."""

    bits: int
    max: int
    min: int
    dtype: DType


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: Device | str | None = None) -> Tensor:
    """The array with elements of another type; a copy unless `copy` is False and nothing changes."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError(f"astype: expected a complex dtype for {x.dtype} elements but got {dtype}: use real or imag")
    return x.to(device=device, dtype=dtype, copy=copy)


def can_cast(from_: DType | Tensor, to: DType, /) -> bool:
    """Whether elements of a type may be stored as another by the rules of promotion."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    if source == to:
        return True
    if flambeau.bool in (source, to) or is_integer(source) != is_integer(to):
        return False
    try:
        return common_type(source, to) == to
    except TypeError:
        return False


def finfo(type: DType | Tensor, /) -> FloatLimits:
    """The limits of a floating point type, or of the parts of a complex type."""
    kind = real_type(type.dtype if isinstance(type, Tensor) else type)
    found = flambeau.finfo(kind)
    return FloatLimits(found.bits, found.eps, found.max, found.min, found.smallest_normal, kind)


def iinfo(type: DType | Tensor, /) -> IntegerLimits:
    """The limits of an integer type."""
    kind = type.dtype if isinstance(type, Tensor) else type
    found = flambeau.iinfo(kind)
    return IntegerLimits(found.bits, found.max, found.min, kind)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether a type is another one, or of a kind such as "real floating", or any of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, flambeau.dtype):
        return dtype == kind
    if kind not in KINDS:
        raise ValueError(f"isdtype: expected kind to be a dtype or one of {', '.join(KINDS)} but got {kind!r}")
    return dtype in types(KINDS[kind]).values()


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type of what an operator gives for these arrays, types and numbers."""
    return common_type(*arrays_and_dtypes)
