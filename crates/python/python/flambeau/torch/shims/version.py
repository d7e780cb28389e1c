"""torch.version: the release of PyTorch whose names there are; no CUDA, ROCm or other runtime."""

from __future__ import annotations

__version__ = "2.15.0"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
rocm: str | None = None
git_version = "Unknown"
