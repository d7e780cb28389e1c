"""Operators that are defined outside of this library."""

from __future__ import annotations

from ._plugins import load_library, loaded_libraries

__all__ = ["load_library", "loaded_libraries"]
