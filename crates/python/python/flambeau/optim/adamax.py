"""Adamax, which is Adam with the maximum norm (Kingma and Ba, 2015)."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class Adamax(Optimizer):
    """Steps by the running mean of the gradient over the largest of its recent magnitudes."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("epsilon value", eps, eps >= 0.0)
        for index, beta in enumerate(betas):
            refuse(f"beta parameter at index {index}", beta, 0.0 <= beta < 1.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        refuse_choices(capturable, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
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
        means = {name: flambeau.zeros_like(param) for name in ("exp_avg", "exp_inf")}
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), **means}

    def _scratch_count(self, group: Group) -> int:
        return 1 if changes_gradients(group) else 0

    def _update(self, group: Group) -> None:
        rate, (beta1, beta2), eps = float(group["lr"]), group["betas"], group["eps"]
        for param, grad in self._gradients(group, group["weight_decay"]):
            state = self.state[param]
            state["step"].add_(1)
            step = state["step"].item()
            mean, largest = state["exp_avg"], state["exp_inf"]
            mean.lerp_(grad, 1 - beta1)
            flambeau.maximum(largest.mul_(beta2), grad.abs().add_(eps), out=largest)
            param.addcdiv_(mean, largest, value=-rate / (1 - beta1**step))
