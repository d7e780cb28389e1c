"""Signals, under the names of `torch.signal`: the windows."""

from . import windows as windows

__all__ = ["windows"]
