"""`multiprocessing` with tensors that are sent as handles: sender and receiver look at the same elements.

Importing it is enough: queues, pipes and arguments of processes of the standard module then send handles too.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from flambeau.multiprocessing import reductions
from flambeau.multiprocessing.spawning import ProcessExitedException, ProcessRaisedException, spawn, start_processes

__all__ = [
    *multiprocessing.__all__,
    "ProcessExitedException",
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

reductions.register()


def get_all_sharing_strategies() -> set[str]:
    """There is one: files of memory without a name."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """How memory is shared."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """For programs that choose one; there is nothing to choose."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(f"expected one of {get_all_sharing_strategies()} but got {new_strategy!r}")
