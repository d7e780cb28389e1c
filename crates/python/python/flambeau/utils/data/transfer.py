"""How batches go from one process to another: the one place that knows. For now the bytes of tensors are copied."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dumps(value: Any) -> memoryview:
    """Bytes for another process."""
    from multiprocessing.reduction import ForkingPickler

    return ForkingPickler.dumps(value)


def loads(data: bytes) -> Any:
    """What `dumps` was given."""
    from multiprocessing.reduction import ForkingPickler

    return ForkingPickler.loads(data)
