"""torch._utils: what packages use of PyTorch's own helpers."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._archive import _rebuild_parameter as _rebuild_parameter, _rebuild_tensor as _rebuild_tensor_v2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_rebuild_tensor_v2 = _rebuild_tensor_v2


def _element_size(dtype: flambeau.dtype) -> int:
    return dtype.itemsize


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    return flambeau.cat([x.reshape(-1) for x in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    parts = flat.split([x.numel() for x in tensors])
    return tuple(part.view_as(x) for part, x in zip(parts, tensors))


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    if isinstance(device, int):
        return device
    if device is None and optional:
        return -1
    found = flambeau.device(device)
    if found.type == "cpu" and not allow_cpu:
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    return -1 if found.index is None else found.index


def _get_available_device_type() -> None:
    """None: there is no device beside the CPU."""


def _get_device_module(device_type: str) -> Any:
    import importlib

    return importlib.import_module(f"torch.{device_type}")


class ExceptionWrapper:
    """An exception of another process, which is raised here."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        import sys

        info: Any = exc_info or sys.exc_info()
        self.exc_type, self.exc_msg, self.where = info[0], str(info[1]), where

    def reraise(self) -> None:
        """Raises it."""
        raise self.exc_type(f"Caught {self.exc_type.__name__} {self.where}.\n{self.exc_msg}")
