"""Plug-ins: libraries in C, C++ or Rust that define operators when they are loaded."""

from __future__ import annotations

import os

from . import _flambeau, _ops


def load_library(path: str | os.PathLike[str]) -> None:
    """Loads the plug-in at `path`, which is written against `flambeau.h`, and runs its start function once. It stays loaded.

    Raises OSError that names the path and the cause where there is no such file or it is no plug-in.
    """
    try:
        _flambeau._load_library(os.fspath(path))
    finally:
        # Its operators are there even where its start function fails after it has defined some.
        _ops.refresh()


def loaded_libraries() -> set[str]:
    """The paths of the plug-ins that were loaded."""
    return {os.fspath(path) for path in _flambeau._loaded_libraries()}
