"""torch.backends.mkldnn: not available; its settings are stored and change nothing."""

from __future__ import annotations

from flambeau.torch.shims.backends.settings import is_available as is_available, is_built as is_built, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

enabled: Any = False
deterministic: Any = False
allow_tf32: Any = False
fp32_precision: Any = 'none'


def flags(**changed: Any) -> Any:
    """A context in which the settings are others."""
    return settings(globals(), changed)
