"""torch.backends.quantized: no engine."""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
