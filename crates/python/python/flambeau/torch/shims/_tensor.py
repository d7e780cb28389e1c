"""torch._tensor: what packages use of PyTorch's own module of tensors."""

from __future__ import annotations

from flambeau._archive import _rebuild_from_type as _rebuild_from_type_v2

_rebuild_from_type_v2 = _rebuild_from_type_v2
