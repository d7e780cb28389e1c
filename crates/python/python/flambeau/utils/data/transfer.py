"""How batches go from one process to another: the one place that knows. For now the bytes of tensors are copied."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler

import flambeau
from flambeau.utils.tensor_bytes import from_bytes, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _reduce(tensor: flambeau.Tensor) -> tuple[Any, ...]:
    """A tensor as its bytes, without history."""
    return _rebuild, (to_bytes(tensor), tuple(tensor.shape), tensor.dtype, tensor.requires_grad)


def _rebuild(data: bytes, shape: tuple[int, ...], dtype: flambeau.dtype, requires_grad: bool) -> flambeau.Tensor:
    made = from_bytes(data, shape, dtype)
    return made.requires_grad_(True) if requires_grad else made


ForkingPickler.register(flambeau.Tensor, _reduce)


def dumps(value: Any) -> memoryview:
    """Bytes for another process."""
    return ForkingPickler.dumps(value)


def loads(data: bytes) -> Any:
    """What `dumps` was given."""
    return ForkingPickler.loads(data)
