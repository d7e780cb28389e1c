"""Layers, losses and containers of parameters: torch's `nn`, in Python over the operators."""

from __future__ import annotations

from flambeau.nn import functional, init, modules, parameter, utils
from flambeau.nn.modules import *  # noqa: F403
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.nn import attention as attention, parallel as parallel
    from flambeau.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss
    from flambeau.nn.modules.alignment import CTCLoss as CTCLoss
    from flambeau.nn.modules.fractional import CrossMapLRN2d as CrossMapLRN2d, FractionalMaxPool2d as FractionalMaxPool2d
    from flambeau.nn.modules.fractional import FractionalMaxPool3d as FractionalMaxPool3d
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


# In which module each layer is that is imported when it is used first.
_MODULES = {
    "AdaptiveLogSoftmaxWithLoss": "modules.adaptive",
    "CTCLoss": "modules.alignment",
    "CrossMapLRN2d": "modules.fractional",
    "DataParallel": "parallel",
    "FractionalMaxPool2d": "modules.fractional",
    "FractionalMaxPool3d": "modules.fractional",
    "SyncBatchNorm": "modules.sync_batchnorm",
}


def __getattr__(name: str) -> Any:
    """Layers and modules that not every program needs are imported on first access."""
    from importlib import import_module

    if name in ("attention", "parallel"):
        return import_module(f"flambeau.nn.{name}")
    source = _MODULES.get(name, "modules.lazy" if name.startswith("Lazy") else None)
    if source is not None:
        found = getattr(import_module(f"flambeau.nn.{source}"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'flambeau.nn' has no attribute '{name}'")
