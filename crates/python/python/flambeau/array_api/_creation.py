"""Functions of the standard that create arrays."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import complex_type, real_type
from ._unsigned import as_int64_bits, from_bits, is_wide, wrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import device as Device, dtype as DType

    Shape = int | tuple[int, ...]
    # A number, complex ones among them.
    Number = Any

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """The numbers from `start` up to `stop`, without it; none where `stop` is not in the direction of `step`."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step < 0:
        # A number of the same kind, which decides the dtype.
        stop = float(start) if isinstance(stop, float) else start
    if dtype is not None and is_wide(dtype):
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and step != 0 and dtype.itemsize == 8:
            count = max(-((start - stop) // step), 0)
            numbers = flambeau.arange(count, dtype=flambeau.int64, device=device)
            return from_bits(numbers * wrapped(step) + wrapped(start), dtype)
        return from_bits(flambeau.arange(start, stop, step, dtype=flambeau.int64, device=device), dtype)
    return flambeau.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: DType | None = None, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """An array of an array, a buffer, an object with `__dlpack__`, a number or nested lists.

    `copy=True` always copies, `copy=False` raises ValueError where a copy would be needed. The gradient of the result is that of `obj`.
    """
    if not isinstance(obj, Tensor):
        return flambeau.asarray(obj, dtype=dtype, device=device, copy=copy)
    result = obj.to(device=device, dtype=dtype, copy=bool(copy))
    if copy is False and result is not obj:
        raise ValueError("asarray: expected an array that needs no copy, since copy=False, but the dtype or the device differs")
    return result


def empty(shape: Shape, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array that is not initialised."""
    return flambeau.empty(_sizes(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of the shape of `x` that is not initialised."""
    return flambeau.empty_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A matrix with ones on diagonal `k`, which is above the main one if positive, and zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    result = flambeau.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        result.diagonal(k).fill_(1)
    return result


def from_dlpack(x: Any, /, *, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """An array of an object with `__dlpack__`; its memory is shared unless `copy` or `device` require a copy."""
    return flambeau.from_dlpack(x, device=device, copy=copy)


def full(shape: Shape, fill_value: Number, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of one value."""
    return flambeau.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Number, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of the shape of `x` with one value."""
    return flambeau.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: Number,
    stop: Number,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`, which is the last one unless `endpoint` is False."""
    if num < 0:
        raise ValueError(f"linspace: expected num >= 0 but got {num}")
    steps = num if endpoint else num + 1
    is_complex = isinstance(start, complex) or isinstance(stop, complex) or (dtype is not None and dtype.is_complex)
    if not is_complex:
        return flambeau.linspace(start, stop, steps, dtype=dtype, device=device)[:num]
    kind = complex_type(flambeau.get_default_dtype()) if dtype is None else dtype
    start, stop = complex(start), complex(stop)
    ends = ((start.real, stop.real), (start.imag, stop.imag))
    parts = [flambeau.linspace(first, last, steps, dtype=real_type(kind), device=device) for first, last in ends]
    return flambeau.complex(*parts)[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Grids of coordinates from arrays of one dimension; the first two axes are exchanged unless `indexing` is "ij"."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: expected indexing to be 'xy' or 'ij' but got {indexing!r}")
    return tuple(flambeau.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def ones(shape: Shape, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of ones."""
    return flambeau.ones(_sizes(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of the shape of `x` with ones."""
    return flambeau.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on diagonal `k` and below, zeros elsewhere."""
    return as_int64_bits(flambeau.tril)(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on diagonal `k` and above, zeros elsewhere."""
    return as_int64_bits(flambeau.triu)(x, k)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of zeros."""
    return flambeau.zeros(_sizes(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """An array of the shape of `x` with zeros."""
    return flambeau.zeros_like(x, dtype=dtype, device=device)
