"""Functions of the standard that change shapes and order."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import axes_of, axis_of, common_type, is_integer
from ._unsigned import as_int64_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._arguments import Axes

__all__ = [
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The arrays expanded to their common shape."""
    return tuple(flambeau.broadcast_tensors(*arrays)) if arrays else ()


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of arrays of these shapes."""
    try:
        return tuple(flambeau.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(f"broadcast_shapes: {error}") from error


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The array expanded to a shape."""
    return flambeau.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after the other along an axis, or flattened if `axis` is None."""
    if len(arrays) == 0:
        raise ValueError("concat: expected at least one array")
    kind = common_type(*arrays)
    parts = [part.to(kind) if axis is not None else part.to(kind).reshape(-1) for part in arrays]
    dim = axis_of("concat", parts[0], 0 if axis is None else axis)
    if any(part.ndim != parts[0].ndim for part in parts):
        raise ValueError(f"concat: expected arrays of {parts[0].ndim} dimensions but got {[part.ndim for part in parts]}")
    return flambeau.cat(parts, dim)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """The array with axes of size 1 at these positions of the result."""
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    count = x.ndim + len(given)
    if any(not -count <= one < count for one in given):
        raise IndexError(f"expand_dims: expected axes in [{-count}, {count}) but got {axis}")
    positions = sorted(one % count for one in given)
    if len(set(positions)) != len(positions):
        raise ValueError(f"expand_dims: expected different axes but got {axis}")
    for position in positions:
        x = x.unsqueeze(position)
    return x


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """The elements in reverse order along all axes, or along those given."""
    return as_int64_bits(flambeau.flip)(x, axes_of("flip", x, axis))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """The array with some axes at other positions, the others in their order."""
    return flambeau.moveaxis(x, axes_of("moveaxis", x, source), axes_of("moveaxis", x, destination))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The array with its axes in another order."""
    return x.permute(axes_of("permute_dims", x, tuple(axes)))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times along an axis, or each of the flattened array."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    dim = axis_of("repeat", x, axis)
    if isinstance(repeats, int):
        return as_int64_bits(flambeau.repeat_interleave)(x, repeats, dim=dim)
    if not is_integer(repeats.dtype):
        raise TypeError(f"repeat: expected repeats of an integer dtype but got {repeats.dtype}")
    return as_int64_bits(flambeau.repeat_interleave)(x, repeats.to(flambeau.int64).expand(x.shape[dim]), dim=dim)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape. `copy=False` raises ValueError where a copy would be needed."""
    if copy:
        return x.clone(memory_format=flambeau.contiguous_format).reshape(shape)
    if copy is None:
        return x.reshape(shape)
    result = x.reshape(shape)
    if result.numel() > 0 and result.data_ptr() != x.data_ptr():
        raise ValueError(f"reshape: expected strides that need no copy for {tuple(shape)}, since copy=False, but got {x.stride()}")
    return result


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Tensor:
    """The elements moved along axes; those that leave at one end enter at the other."""
    if axis is None:
        if not isinstance(shift, int):
            raise ValueError(f"roll: expected one shift without an axis but got {shift}")
        return as_int64_bits(flambeau.roll)(x.reshape(-1), shift).reshape(x.shape)
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(given) if isinstance(shift, int) else tuple(shift)
    if len(shifts) != len(given):
        raise ValueError(f"roll: expected a shift for each of {len(given)} axes but got {len(shifts)}")
    return as_int64_bits(flambeau.roll)(x, shifts, [axis_of("roll", x, one) for one in given]) if given else x.clone()


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """The array without some axes, whose sizes must be 1."""
    axes = axes_of("squeeze", x, axis)
    for one in axes:
        if x.shape[one] != 1:
            raise ValueError(f"squeeze: expected size 1 along axis {one} but got {x.shape[one]}")
    return flambeau.squeeze(x, axes) if axes else x


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The arrays along a new axis."""
    if len(arrays) == 0:
        raise ValueError("stack: expected at least one array")
    kind = common_type(*arrays)
    count = arrays[0].ndim + 1
    if not -count <= axis < count:
        raise IndexError(f"stack: expected axis in [{-count}, {count}) but got {axis}")
    return flambeau.stack([part.to(kind) for part in arrays], axis % count)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array repeated along each axis; missing numbers of repetitions and missing axes are 1."""
    return as_int64_bits(flambeau.tile)(x, repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of an array along an axis, without the axis."""
    if x.ndim == 0:
        raise ValueError("unstack: expected at least one dimension but got 0")
    return tuple(x.unbind(axis_of("unstack", x, axis)))
