"""All operators by namespace and name: `flambeau.ops.aten.add.Tensor`, and those that programs and loaded libraries define."""

from __future__ import annotations

from ._ops import namespace as _namespace
from ._plugins import load_library, loaded_libraries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load_library", "loaded_libraries"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return _namespace(name)
