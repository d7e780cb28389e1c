"""Adagrad: Duchi, Hazan and Singer, 2011."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices, rows_of

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
                self.state[param] = self._first_state(param, group)

    _takes_sparse = True

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        total = flambeau.full_like(param, group["initial_accumulator_value"]).detach()
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), "sum": total}

    def _scratch_count(self, group: Group) -> int:
        return 2 if changes_gradients(group) else 1

    def _update(self, group: Group) -> None:
        for param, grad in self._gradients(group, group["weight_decay"]):
            state = self.state[param]
            state["step"].add_(1)
            rate = float(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
            total = state["sum"]
            if grad.is_sparse:
                index, values = rows_of(grad)
                total.index_put_(index, values * values, accumulate=True)
                param.index_put_(index, values / total[index].sqrt_().add_(group["eps"]) * -rate, accumulate=True)
                continue
            total.addcmul_(grad, grad, value=1)
            length = flambeau.sqrt(total, out=self._scratch_tensor(param, -1)).add_(group["eps"])
            param.addcdiv_(grad, length, value=-rate)
