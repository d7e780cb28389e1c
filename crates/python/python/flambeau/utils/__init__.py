"""What training needs beside tensors and layers."""

from __future__ import annotations

from flambeau.utils import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack"]
