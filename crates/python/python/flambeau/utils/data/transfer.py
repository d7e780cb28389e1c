"""How batches go from one process to another: the one place that knows. For now the bytes of tensors are copied."""

from __future__ import annotations

import ctypes
from multiprocessing.reduction import ForkingPickler

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _reduce(tensor: flambeau.Tensor) -> tuple[Any, ...]:
    """A tensor as its bytes in row-major order, without history."""
    rows = tensor.detach().contiguous()
    data = ctypes.string_at(rows.data_ptr(), rows.numel() * rows.element_size()) if rows.numel() > 0 else b""
    return _rebuild, (data, tuple(rows.shape), rows.dtype, tensor.requires_grad)


def _rebuild(data: bytes, shape: tuple[int, ...], dtype: flambeau.dtype, requires_grad: bool) -> flambeau.Tensor:
    made = flambeau.empty(shape, dtype=dtype)
    if data:
        ctypes.memmove(made.data_ptr(), data, len(data))
    return made.requires_grad_(True) if requires_grad else made


ForkingPickler.register(flambeau.Tensor, _reduce)


def dumps(value: Any) -> memoryview:
    """Bytes for another process."""
    return ForkingPickler.dumps(value)


def loads(data: bytes) -> Any:
    """What `dumps` was given."""
    return ForkingPickler.loads(data)
