"""Where operators and kernels were registered: a second registration is an error that names both locations."""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(__file__))

_locations: dict[tuple[str, str], str] = {}


def here() -> str:
    """The file and line of the program that called the library."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, contextlib.__file__)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def register(name: str, what: str, allow_override: bool = False) -> None:
    """Notes a registration, which must be the first of its kind for the operator."""
    now = here()
    before = _locations.get((name, what))
    if before is not None and not allow_override:
        raise RuntimeError(f"{name}: {what} is registered already, at {before}; this is a second registration, at {now}")
    _locations[name, what] = now


def forget(name: str, what: str | None = None) -> None:
    """Forgets a registration, or all of an operator."""
    for key in [key for key in _locations if key[0] == name and what in (None, key[1])]:
        del _locations[key]
