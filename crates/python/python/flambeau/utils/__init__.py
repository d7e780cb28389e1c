"""What training needs beside tensors and layers."""

from __future__ import annotations

from flambeau.utils import data, dlpack

__all__ = ["data", "dlpack"]
