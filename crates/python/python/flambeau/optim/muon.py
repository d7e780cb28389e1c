"""Muon (Jordan et al., 2024): momentum whose matrices are made orthogonal."""

from __future__ import annotations

import math

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


def orthogonalized(grad: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix with singular values near 1 and the singular vectors of `grad`, by Newton's and Schulz's iteration in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if grad.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    a, b, c = coefficients
    x = grad.bfloat16()
    tall = grad.shape[0] > grad.shape[1]
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.t() if tall else x


class Muon(Optimizer):
    """Steps by orthogonal matrices: for the weights of hidden layers, which have two dimensions."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("momentum value", momentum, momentum >= 0.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults: dict[str, Any] = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}")

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {"momentum_buffer": flambeau.zeros_like(param)}

    def _update(self, group: Group) -> None:
        rate, momentum = float(group["lr"]), group["momentum"]
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            velocity = self.state[param]["momentum_buffer"]
            velocity.lerp_(grad, 1 - momentum)
            change = grad.lerp(velocity, momentum) if group["nesterov"] else velocity
            change = orthogonalized(change, group["ns_coefficients"], group["ns_steps"], group["eps"])
            param.mul_(1 - rate * group["weight_decay"])
            param.add_(change.to(param.dtype), alpha=-rate * _ratio(param.shape, group["adjust_lr_fn"]))


def _ratio(shape: Any, rule: str | None) -> float:
    """By what the rate is multiplied for a matrix of this shape."""
    rows, columns = shape[:2]
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
