"""Layers, losses and containers of parameters: torch's `nn`, in Python over the operators."""

from __future__ import annotations

from flambeau.nn import functional, init, modules, parameter, utils
from flambeau.nn.modules import *  # noqa: F403
from flambeau.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils", *modules.__all__]
