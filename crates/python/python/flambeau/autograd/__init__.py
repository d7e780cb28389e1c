"""Gradients: `backward`, `grad`, functions with derivatives of their own, checks, and which calls are recorded."""

from __future__ import annotations

from .. import _flambeau
from .._flambeau import Node
from .._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from . import graph as graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function
from .gradcheck import gradcheck, gradgradcheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing import Any

    from .._flambeau import Tensor
    from . import forward_ad as forward_ad, functional as functional

    Tensors = Tensor | Sequence[Tensor]
    Gradients = Tensor | Sequence[Tensor | None] | None


__all__ = [
    "Function",
    "Node",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def backward(
    tensors: Tensors,
    grad_tensors: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Accumulates the gradients of the leaves that `tensors` depend on."""
    _flambeau._backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of `outputs` with respect to `inputs`; nothing is accumulated.

    With `is_grads_batched` the first dimension of each of `grad_outputs` is a batch, and so is that of each gradient: one pass computes
    the products of all with the Jacobian.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True")
    unused = materialize_grads if allow_unused is None else allow_unused
    if is_grads_batched:
        from ._jacobians import grads_of_batch

        return grads_of_batch(outputs, inputs, grad_outputs, (retain_graph, create_graph, unused), materialize_grads)
    found = _flambeau._grad(outputs, inputs, grad_outputs, retain_graph, create_graph, unused)
    if not materialize_grads:
        return found
    leaves = [inputs] if isinstance(inputs, _flambeau.Tensor) else inputs
    return tuple(_flambeau.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True))


def __getattr__(name: str) -> Any:
    """Modules that not every program needs are imported on first access."""
    if name in ("forward_ad", "functional"):
        from importlib import import_module

        return import_module(f"flambeau.autograd.{name}")
    raise AttributeError(f"module 'flambeau.autograd' has no attribute '{name}'")
