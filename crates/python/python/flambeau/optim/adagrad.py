"""Adagrad: Duchi, Hazan and Singer, 2011."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse, refuse_choices, with_gradients

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class Adagrad(Optimizer):
    """Steps by the gradient over the root of the sum of its squares so far.

    `foreach` and `fused` are PyTorch's choices of implementation and change nothing here.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("lr_decay value", lr_decay, lr_decay >= 0.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        refuse("initial_accumulator_value value", initial_accumulator_value, initial_accumulator_value >= 0.0)
        refuse("epsilon value", eps, eps >= 0.0)
        refuse_choices(False, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self._begin(param, group)

    def _begin(self, param: Tensor, group: Group) -> dict[str, Any]:
        state = self.state[param]
        if not state:
            state["step"] = flambeau.tensor(0.0, dtype=flambeau.float32)
            state["sum"] = flambeau.full_like(param, group["initial_accumulator_value"]).detach()
        return state

    def _update(self, group: Group) -> None:
        for param, grad in with_gradients(group):
            state = self._begin(param, group)
            state["step"].add_(1)
            if group["weight_decay"] != 0:
                grad = grad.add(param, alpha=group["weight_decay"])
            rate = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
            total = state["sum"]
            total.addcmul_(grad, grad, value=1)
            param.addcdiv_(grad, total.sqrt().add_(group["eps"]), value=-rate)
