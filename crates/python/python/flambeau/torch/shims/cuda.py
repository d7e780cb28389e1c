"""torch.cuda: names that flambeau.cuda does not have, as on a machine without a device."""

from __future__ import annotations

import contextlib

from flambeau.torch.shims.devices import *  # noqa: F403
from flambeau.torch.shims.devices import NoDeviceContext, rng_states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

default_generators: tuple[Any, ...] = ()
has_half = has_magma = False


class device(NoDeviceContext):
    """Selects a device."""


class device_of(NoDeviceContext):
    """Selects the device of a tensor; tensors are on the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def is_current_stream_capturing() -> bool:
    """False."""
    return False


def get_rng_state_all() -> list[Any]:
    """No states."""
    return rng_states()


def set_rng_state_all(new_states: Any) -> None:
    """Sets no states."""


def get_arch_list() -> list[str]:
    """No architectures."""
    return []


def ipc_collect() -> None:
    """Frees nothing."""


def reset_max_memory_allocated(device: Any = None) -> None:
    """Resets nothing."""


def stream(stream: Any) -> Any:
    """A context that does nothing, for no stream."""
    if stream is not None:
        raise RuntimeError("there is no CUDA device")
    return contextlib.nullcontext()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """No numbers."""
    return {}


def _is_compiled() -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Calls nothing: it would be called when the device is used first."""


def set_device(device: Any) -> None:
    """RuntimeError unless the number is negative."""
    if not (isinstance(device, int) and device < 0):
        raise RuntimeError("there is no CUDA device")
