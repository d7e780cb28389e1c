"""Adadelta (Zeiler, 2012)."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class Adadelta(Optimizer):
    """Steps by the gradient times the ratio of the root means of squares of past steps and of gradients."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("rho value", rho, 0.0 <= rho <= 1.0)
        refuse("epsilon value", eps, eps >= 0.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        refuse_choices(capturable, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "capturable": capturable,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        means = {name: flambeau.zeros_like(param) for name in ("square_avg", "acc_delta")}
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), **means}

    def _scratch_count(self, group: Group) -> int:
        return 1 if changes_gradients(group) else 0

    def _update(self, group: Group) -> None:
        rate, rho, eps = float(group["lr"]), group["rho"], group["eps"]
        for param, grad in self._gradients(group, group["weight_decay"]):
            state = self.state[param]
            state["step"].add_(1)
            square, steps = state["square_avg"], state["acc_delta"]
            square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
            delta = (steps + eps).sqrt_().div_((square + eps).sqrt_()).mul_(grad)
            steps.mul_(rho).addcmul_(delta, delta, value=1 - rho)
            param.add_(delta, alpha=-rate)
