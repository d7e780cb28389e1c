"""torch.backends.cudnn: not available; its settings are stored and change nothing."""

from __future__ import annotations

from flambeau.torch.shims.backends.settings import is_available as is_available, is_built as is_built, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

enabled: Any = True
benchmark: Any = False
deterministic: Any = False
allow_tf32: Any = False
benchmark_limit: Any = 10
fp32_precision: Any = 'none'


def flags(**changed: Any) -> Any:
    """A context in which the settings are others."""
    return settings(globals(), changed)


def version() -> None:
    """None: there is no cuDNN."""


def is_acceptable(tensor: Any) -> bool:
    """False."""
    return False
