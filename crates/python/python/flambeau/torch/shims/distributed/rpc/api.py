"""torch.distributed.rpc.api: a decorator that packages use when they are imported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _require_initialized(func: Any) -> Any:
    """The function itself."""
    return func
