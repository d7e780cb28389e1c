"""torch.accelerator: there is none."""

from __future__ import annotations

from flambeau.torch.shims.devices import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no accelerator."""


def current_device_index() -> int:
    """RuntimeError: there is no accelerator."""
    raise RuntimeError("there is no accelerator")


def set_device_index(device: Any) -> None:
    """RuntimeError: there is no accelerator."""
    raise RuntimeError("there is no accelerator")
