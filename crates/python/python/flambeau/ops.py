"""All operators by namespace and name: `flambeau.ops.aten.add.Tensor`, and those that programs define, `flambeau.ops.mine.cube`."""

from __future__ import annotations

from ._ops import namespace as _namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load_library(path: str) -> None:
    """Refuses a library that is compiled for PyTorch."""
    raise OSError(f"ops.load_library: {path} is compiled for PyTorch's C++ library, which is not here")


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return _namespace(name)
