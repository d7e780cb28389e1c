"""Layers, losses and containers of parameters: torch's `nn`, in Python over the operators."""

from __future__ import annotations

from flambeau.nn import functional, init, modules, parameter, utils
from flambeau.nn.modules import *  # noqa: F403
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.nn import attention as attention, parallel as parallel
    from flambeau.nn.modules.lazy import *  # noqa: F403
    from flambeau.nn.modules.sync_batchnorm import SyncBatchNorm as SyncBatchNorm
    from flambeau.nn.parallel import DataParallel as DataParallel

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parameter",
    "utils",
    *modules.__all__,
]


def __getattr__(name: str) -> Any:
    """Layers and modules that not every program needs are imported on first access."""
    from importlib import import_module

    if name in ("attention", "parallel"):
        return import_module(f"flambeau.nn.{name}")
    source = "parallel" if name == "DataParallel" else "modules.sync_batchnorm" if name == "SyncBatchNorm" else None
    if name.startswith("Lazy"):
        source = "modules.lazy"
    if source is not None:
        found = getattr(import_module(f"flambeau.nn.{source}"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'flambeau.nn' has no attribute '{name}'")
