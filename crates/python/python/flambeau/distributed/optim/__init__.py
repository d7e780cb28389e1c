"""Optimizers whose state is sharded over ranks."""

from __future__ import annotations

from flambeau.distributed.optim.zero import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
