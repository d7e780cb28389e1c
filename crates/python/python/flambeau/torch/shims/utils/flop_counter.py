"""torch.utils.flop_counter: operations are not counted, and a warning says so."""

from __future__ import annotations

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FlopCounterMode:
    """A context that counts nothing."""

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        pass

    def __enter__(self) -> FlopCounterMode:
        warnings.warn("FlopCounterMode: operations are not counted in Flambeau; all counts are 0", stacklevel=2)
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """No counts."""
        return {"Global": {}}

    def get_total_flops(self) -> int:
        """0."""
        return 0
