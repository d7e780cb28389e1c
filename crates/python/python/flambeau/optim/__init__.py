"""Optimisers, which change parameters by their gradients: torch's `optim`, in Python over the operators."""

from __future__ import annotations

from flambeau.optim import lr_scheduler
from flambeau.optim.adagrad import Adagrad
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.rmsprop import RMSprop
from flambeau.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
