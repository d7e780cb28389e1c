"""torch.cpu: the CPU by the names that devices have."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """"cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Changes nothing."""


def synchronize(device: Any = None) -> None:
    """Waits for nothing: a call ends when its result is computed."""


def current_stream(device: Any = None) -> Any:
    """A stream, which there is one of."""
    return Stream()


def stream(stream: Any) -> Any:
    """A context that does nothing."""
    return contextlib.nullcontext()


class Stream:
    """The order of calls; there is one."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Waits for nothing."""


class Event:
    """The end of a call, which has always come."""

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Records nothing."""

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait(self, stream: Any = None) -> None:
        """Waits for nothing."""


class StreamContext:
    """A context that does nothing: there is one stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass


def get_capabilities() -> dict[str, Any]:
    """The architecture of the processor."""
    import platform

    return {"architecture": platform.machine()}


def _is_amx_tile_supported() -> bool:
    return False


def _is_avx512_supported() -> bool:
    return False
