"""Fully sharded data parallel training: each rank has a part of the parameters, gradients and optimizer state."""

from __future__ import annotations

from flambeau.distributed.fsdp.fully_sharded import FullyShardedDataParallel as FullyShardedDataParallel

__all__ = ["FullyShardedDataParallel"]
