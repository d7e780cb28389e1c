"""torch.nn.attention.flex_attention: names for annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_score_mod_signature = Callable[..., Any]
_mask_mod_signature = Callable[..., Any]
