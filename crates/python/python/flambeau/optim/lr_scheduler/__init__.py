"""Learning rates that change from step to step, by PyTorch's formulas."""

from __future__ import annotations

from flambeau.optim.lr_scheduler.base import LRScheduler
from flambeau.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from flambeau.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from flambeau.optim.lr_scheduler.plateau import ReduceLROnPlateau
from flambeau.optim.lr_scheduler.simple import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

# PyTorch's name from before schedulers had a public base.
_LRScheduler = LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
