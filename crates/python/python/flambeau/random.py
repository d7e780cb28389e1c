"""The state of the default generator: torch's `random`."""

from __future__ import annotations

from contextlib import contextmanager

import flambeau
from flambeau import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "thread_safe_generator"]


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Afterwards the generator is where it was before."""
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)


def thread_safe_generator() -> flambeau.Generator | None:
    """None: the default generator may be used on every thread."""
    return None
