"""torch._C._nn: functions of PyTorch's C++ library that packages call."""

from __future__ import annotations

import flambeau
from flambeau._flambeau import _nn as _operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, whether to wait, and memory format, of the arguments of `Tensor.to`."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    non_blocking = kwargs.get("non_blocking", False)
    for arg in args:
        if isinstance(arg, flambeau.Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, flambeau.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            non_blocking = arg
        elif arg is not None:
            device = arg
    return None if device is None else flambeau.device(device), dtype, non_blocking, kwargs.get("memory_format")


def __getattr__(name: str) -> Any:
    return getattr(_operators, name)
