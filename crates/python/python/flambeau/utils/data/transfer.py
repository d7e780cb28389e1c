"""Transfer of batches between processes: tensors are sent as handles on shared memory."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler

from flambeau.multiprocessing import reductions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

reductions.register()


def dumps(value: Any) -> memoryview:
    """Bytes for another process."""
    return ForkingPickler.dumps(value)


def loads(data: bytes) -> Any:
    """The value that `dumps` serialised."""
    return ForkingPickler.loads(data)
