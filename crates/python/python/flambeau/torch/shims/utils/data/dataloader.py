"""torch.utils.data.dataloader: names that packages use of PyTorch's own loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.utils.data.collate import default_collate as default_collate
from flambeau.utils.data.run import *  # noqa: F403

_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[Any]], Any]


class _BaseDataLoaderIter:
    """The base of PyTorch's iterators of loaders."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches that are made in this process."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches that are made by workers."""


class _InfiniteConstantSampler:
    """The sampler of an iterable data set."""


class _DatasetKind:
    """Which kind of data set it is."""

    Map = 0
    Iterable = 1
