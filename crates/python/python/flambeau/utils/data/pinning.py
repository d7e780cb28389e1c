"""Batches in pinned memory."""

from __future__ import annotations

from collections.abc import Mapping

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pinned(batch: Any) -> Any:
    """A batch whose tensors are in pinned memory; what is neither a tensor nor a collection, and cannot pin itself, stays as it is."""
    if isinstance(batch, flambeau.Tensor) or hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        items = {key: pinned(value) for key, value in batch.items()}
        kind: Any = type(batch)
        return items if kind is dict else kind(items)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(pinned, batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(map(pinned, batch))
    return batch
