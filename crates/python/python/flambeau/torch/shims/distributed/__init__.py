"""torch.distributed: not available; this is process 0 of 1."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def get_rank(group: Any = None) -> int:
    """0."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1."""
    return 1


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """0."""
    return 0


def barrier(*args: Any, **kwargs: Any) -> None:
    """Waits for nobody."""


def destroy_process_group(group: Any = None) -> None:
    """Ends nothing."""


class group:
    """The groups of processes by name; the whole one is this process."""

    WORLD = None
    NON_GROUP_MEMBER = object()


GroupMember = group
