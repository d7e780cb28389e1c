"""Errors of communication, under PyTorch's names."""

from __future__ import annotations

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
]


class DistError(RuntimeError):
    """Communication has failed."""


class DistBackendError(DistError):
    """A collective or a message has failed: a rank has ended, is late, or the group is broken."""


class DistNetworkError(DistError):
    """A connection cannot be opened."""


class DistStoreError(DistError):
    """A store cannot be reached, or a key was not set in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""
