"""Capsules of DLPack, for libraries that take no objects; `flambeau.from_dlpack` is what to use otherwise."""

from __future__ import annotations

from flambeau import from_dlpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the older kind, good for one tensor."""
    return tensor.__dlpack__()
