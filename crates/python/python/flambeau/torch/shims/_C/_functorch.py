"""torch._C._functorch: transforms of functions, of which none is active."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_batchedtensor(tensor: Any) -> bool:
    """False."""
    return False


def is_gradtrackingtensor(tensor: Any) -> bool:
    """False."""
    return False


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """False."""
    return False


def maybe_get_bdim(tensor: Any) -> int:
    """-1: tensors have no hidden dimension."""
    return -1


def maybe_get_level(tensor: Any) -> int:
    """-1: tensors have no hidden dimension."""
    return -1


def get_unwrapped(tensor: Any) -> Any:
    """The tensor itself."""
    return tensor


def maybe_current_level() -> None:
    """None: no transform is active."""
