"""torch.fx._symbolic_trace: whether a program is traced."""

from __future__ import annotations


def is_fx_tracing() -> bool:
    """False."""
    return False


def is_fx_symbolic_tracing() -> bool:
    """False."""
    return False
