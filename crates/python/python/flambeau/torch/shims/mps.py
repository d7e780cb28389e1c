"""torch.mps: there is no device of this kind."""

from __future__ import annotations

from flambeau.torch.shims.devices import *  # noqa: F403


def current_allocated_memory() -> int:
    """0."""
    return 0


def driver_allocated_memory() -> int:
    """0."""
    return 0
