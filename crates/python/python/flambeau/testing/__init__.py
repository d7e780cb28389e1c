"""Comparisons for tests, and random tensors: torch's `testing`."""

from __future__ import annotations

from flambeau.testing.comparison import assert_allclose, assert_close
from flambeau.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
