"""torch.distributed: what only programs written for PyTorch need; the rest is in `flambeau.distributed`."""

from __future__ import annotations
