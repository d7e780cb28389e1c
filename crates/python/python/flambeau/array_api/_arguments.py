"""What the functions of the standard do with their arguments: common types, numbers beside arrays, axes."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import dtype

    Operand = Tensor | bool | int | float | complex
    Axes = int | tuple[int, ...] | None

# The types of the standard by kind.
BOOLEAN = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")


def types(names: Sequence[str]) -> dict[str, dtype]:
    """The types of these names."""
    return {name: getattr(flambeau._flambeau, name) for name in names}


_UNSIGNED = frozenset(types(UNSIGNED).values())
_INTEGERS = frozenset(types(SIGNED + UNSIGNED).values())


def is_unsigned(kind: dtype) -> bool:
    return kind in _UNSIGNED


def is_integer(kind: dtype) -> bool:
    return kind in _INTEGERS


def default_unsigned() -> dtype:
    """The unsigned integers of as many bits as the default integers."""
    return flambeau.uint64


def default_complex() -> dtype:
    return flambeau.complex128 if flambeau.get_default_dtype() == flambeau.float64 else flambeau.complex64


def real_type(kind: dtype) -> dtype:
    """The type of the parts of complex numbers, and the type itself of real ones."""
    return {flambeau.complex64: flambeau.float32, flambeau.complex128: flambeau.float64}.get(kind, kind)


def complex_type(kind: dtype) -> dtype:
    """The complex numbers whose parts have a type."""
    return {flambeau.float32: flambeau.complex64, flambeau.float64: flambeau.complex128}.get(kind, default_complex())


def _mixed_integers(one: dtype, other: dtype) -> dtype:
    """The smallest signed integers that hold all signed integers of `one` and all unsigned ones of `other`."""
    bits = 8 * max(one.itemsize, 2 * other.itemsize)
    if bits > 64:
        raise TypeError(f"result_type: expected types with a common one but got {one} and {other}")
    return types(SIGNED)[f"int{bits}"]


def promoted(one: dtype, other: dtype) -> dtype:
    """The common type of two, by the table of the standard where it has them, and by PyTorch's elsewhere."""
    if one == other:
        return one
    if is_integer(one) and is_integer(other):
        if is_unsigned(one) == is_unsigned(other):
            return one if one.itemsize >= other.itemsize else other
        return _mixed_integers(other, one) if is_unsigned(one) else _mixed_integers(one, other)
    return flambeau.promote_types(one, other)


def _beside(kind: dtype, number: Any) -> dtype:
    """The common type of arrays of a type and a number, which has no type of its own."""
    if isinstance(number, bool):
        return kind
    if isinstance(number, int):
        return flambeau.int64 if kind == flambeau.bool else kind
    if isinstance(number, float):
        return kind if kind.is_floating_point or kind.is_complex else flambeau.get_default_dtype()
    return kind if kind.is_complex else complex_type(kind)


def common_type(*given: Any) -> dtype:
    """The common type of arrays, types and numbers."""
    kinds = [value.dtype if isinstance(value, Tensor) else value for value in given if isinstance(value, (Tensor, flambeau.dtype))]
    numbers = [value for value in given if isinstance(value, (bool, int, float, complex))]
    if len(kinds) + len(numbers) != len(given):
        other = next(value for value in given if not isinstance(value, (Tensor, flambeau.dtype, bool, int, float, complex)))
        raise TypeError(f"result_type: expected arrays, dtypes and numbers but got {type(other).__name__}")
    if not kinds:
        raise ValueError("result_type: expected at least one array or dtype")
    found = kinds[0]
    for kind in kinds[1:]:
        found = promoted(found, kind)
    for number in numbers:
        found = _beside(found, number)
    return found


def converted(value: Any, kind: dtype, device: Any) -> Tensor:
    """An array of a type; a number becomes an array without dimensions."""
    if isinstance(value, Tensor):
        return value if value.dtype == kind else value.to(kind)
    return flambeau.full((), value, dtype=kind, device=device)


def operands(x1: Operand, x2: Operand) -> list[Tensor]:
    """The arguments of an operator as arrays of their common type. There must be an array among them."""
    if type(x1) is Tensor and type(x2) is Tensor and x1.dtype == x2.dtype:
        return [x1, x2]
    kind = common_type(x1, x2)
    device = x1.device if isinstance(x1, Tensor) else x2.device if isinstance(x2, Tensor) else None
    return [converted(x1, kind, device), converted(x2, kind, device)]


def axis_of(name: str, x: Tensor, axis: int) -> int:
    """An axis counted from the first one."""
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"{name}: expected axis in [{-x.ndim}, {x.ndim}) but got {axis}")
    return axis % x.ndim


def axes_of(name: str, x: Tensor, axis: Axes) -> list[int]:
    """The axes of a reduction, counted from the first one; all where none is given."""
    if axis is None:
        return list(range(x.ndim))
    axes = [axis_of(name, x, one) for one in ((axis,) if isinstance(axis, int) else axis)]
    if len(set(axes)) != len(axes):
        raise ValueError(f"{name}: expected different axes but got {axis}")
    return axes


def one_axis(name: str, x: Tensor, axis: int | None) -> int:
    """The axis of a function that needs one unless the array has only one."""
    if axis is None and x.ndim > 1:
        raise ValueError(f"{name}: expected an axis for an array of {x.ndim} dimensions")
    return 0 if x.ndim == 0 else axis_of(name, x, 0 if axis is None else axis)
