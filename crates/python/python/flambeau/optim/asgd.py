"""Averaged stochastic gradient descent (Polyak and Juditsky, 1992)."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class ASGD(Optimizer):
    """Steps by the gradient with a rate that decays, and keeps the average of the parameters in `state[param]["ax"]`."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        refuse_choices(capturable, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        start = {"step": 0.0, "eta": float(group["lr"]), "mu": 1.0}
        return {**{name: flambeau.tensor(value) for name, value in start.items()}, "ax": flambeau.zeros_like(param)}

    def _scratch_count(self, group: Group) -> int:
        return 1 if changes_gradients(group) else 0

    def _update(self, group: Group) -> None:
        rate, lambd = float(group["lr"]), group["lambd"]
        for param, grad in self._gradients(group, group["weight_decay"]):
            state = self.state[param]
            state["step"].add_(1)
            step = state["step"].item()
            eta, mu = state["eta"].item(), state["mu"].item()
            param.mul_(1 - lambd * eta).add_(grad, alpha=-eta)
            if mu == 1:
                state["ax"].copy_(param)
            else:
                state["ax"].add_(param - state["ax"], alpha=mu)
            state["eta"].fill_(rate / (1 + lambd * rate * step) ** group["alpha"])
            state["mu"].fill_(1 / max(1, step - group["t0"]))
