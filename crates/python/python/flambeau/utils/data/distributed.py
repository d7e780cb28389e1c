"""The part of a data set that one of several processes reads."""

from __future__ import annotations

import math

import flambeau
from flambeau.utils.data.sampler import Sampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every `num_replicas`-th index from `rank` on, in an order that all processes agree on.

    Without `num_replicas` and `rank` they are those of `flambeau.distributed`, and there is one process without `init_process_group`. Call `set_epoch` before each epoch, so that their orders differ.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        from flambeau import distributed

        if distributed.is_initialized():
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        replicas, rank = num_replicas or 1, rank or 0
        if rank >= replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        count = len(dataset)
        self.num_samples = math.ceil((count - replicas) / replicas) if drop_last and count % replicas else math.ceil(count / replicas)
        self.total_size = self.num_samples * replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = flambeau.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = flambeau.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        missing = self.total_size - count
        if missing > 0:
            # The first ones again, so that all processes get as many.
            indices += (indices * math.ceil(missing / count))[:missing]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch begins."""
        self.epoch = epoch
