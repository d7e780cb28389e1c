"""Optimisers, which change parameters by their gradients: torch's `optim`, in Python over the operators."""

from __future__ import annotations

from flambeau.optim import lr_scheduler
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.sgd import SGD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.optim import swa_utils as swa_utils
    from flambeau.optim.adadelta import Adadelta
    from flambeau.optim.adafactor import Adafactor
    from flambeau.optim.adamax import Adamax
    from flambeau.optim.asgd import ASGD
    from flambeau.optim.lbfgs import LBFGS
    from flambeau.optim.muon import Muon
    from flambeau.optim.nadam import NAdam
    from flambeau.optim.radam import RAdam
    from flambeau.optim.rprop import Rprop
    from flambeau.optim.sparse_adam import SparseAdam

# In which module each optimiser is that is imported when it is used first.
_MODULES = {
    "ASGD": "asgd",
    "Adadelta": "adadelta",
    "Adafactor": "adafactor",
    "Adamax": "adamax",
    "LBFGS": "lbfgs",
    "Muon": "muon",
    "NAdam": "nadam",
    "RAdam": "radam",
    "Rprop": "rprop",
    "SparseAdam": "sparse_adam",
}

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]


def __getattr__(name: str) -> Any:
    """Optimisers that not every program needs are imported on first access."""
    from importlib import import_module

    if name in _MODULES:
        return getattr(import_module(f"flambeau.optim.{_MODULES[name]}"), name)
    if name == "swa_utils":
        return import_module("flambeau.optim.swa_utils")
    raise AttributeError(f"module 'flambeau.optim' has no attribute '{name}'")
