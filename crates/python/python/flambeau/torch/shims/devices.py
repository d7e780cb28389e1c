"""What the modules of devices that do not exist here have in common: no device, and calls that need one fail."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import flambeau

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "init",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "synchronize",
]


def is_available() -> bool:
    """False: there is no such device."""
    return False


def is_initialized() -> bool:
    """False: there is no such device."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds no generator."""


def manual_seed_all(seed: int) -> None:
    """Seeds no generator."""


def seed() -> None:
    """Seeds no generator."""


def seed_all() -> None:
    """Seeds no generator."""


def synchronize(device: Any = None) -> None:
    """Waits for nothing."""


def empty_cache() -> None:
    """Frees nothing."""


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Resets nothing."""


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """No bytes free, none in all."""
    return 0, 0


def init() -> None:
    """RuntimeError: there is no such device."""
    raise RuntimeError("there is no device of this kind")


def current_device() -> int:
    """RuntimeError: there is no such device."""
    raise RuntimeError("there is no device of this kind")


class NoDeviceContext:
    """A context that selects a device; without one it does nothing for None and negative numbers."""

    def __init__(self, device: Any = None) -> None:
        self.idx = -1 if device is None else device

    def __enter__(self) -> None:
        if isinstance(self.idx, int) and self.idx < 0:
            return
        raise RuntimeError("there is no device of this kind")

    def __exit__(self, *raised: object) -> None:
        pass


def rng_states() -> list[flambeau.Tensor]:
    """The states of no generators."""
    return []
