"""torch.profiler: names that packages use beside the profiler."""

from __future__ import annotations


def kineto_available() -> bool:
    """False: the profiler is Flambeau's own."""
    return False
