"""Communication hooks of `DistributedDataParallel`: how a bucket of gradients is averaged."""

from __future__ import annotations

from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["default_hooks"]
