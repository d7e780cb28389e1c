"""Stochastic gradient descent, with momentum as PyTorch has it."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class SGD(Optimizer):
    """`p -= lr v`, where `v = momentum v + (1 - dampening) grad`; Nesterov's momentum looks one step ahead.

    `foreach` and `fused` are PyTorch's choices of implementation and change nothing here.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("momentum value", momentum, momentum >= 0.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        refuse_choices(False, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    _takes_sparse = True

    def _update(self, group: Group) -> None:
        rate = -float(group["lr"])
        for param, grad in self._gradients(group, group["weight_decay"]):
            if group["momentum"] != 0:
                grad = self._with_momentum(param, grad, group)
            param.add_(grad, alpha=rate)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return group["momentum"] != 0 and self.state.get(param, {}).get("momentum_buffer") is None

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {"momentum_buffer": flambeau.empty_like(param).detach()}

    def _scratch_count(self, group: Group) -> int:
        return changes_gradients(group) + bool(group["nesterov"])

    def _with_momentum(self, param: Tensor, grad: Tensor, group: Group) -> Tensor:
        state, momentum = self.state[param], group["momentum"]
        velocity = state["momentum_buffer"]
        if param in self._created:
            velocity.copy_(grad)
        else:
            velocity.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
        if not group["nesterov"]:
            return velocity
        if grad.is_sparse:
            return flambeau.add(velocity * momentum, grad)
        return flambeau.add(grad, velocity, alpha=momentum, out=self._scratch_tensor(param, -1))
