"""What the modules of backends have in common: none is there, and settings can be stored for a time."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


@contextmanager
def settings(stored: dict[str, Any], changed: dict[str, Any]) -> Iterator[None]:
    """Inside it, the settings are those that are given."""
    before = {name: stored.get(name) for name in changed}
    stored.update(changed)
    try:
        yield
    finally:
        stored.update(before)
