"""RAdam (Liu et al., 2020)."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class RAdam(Optimizer):
    """Adam whose first steps are without the root of squares, until its variance is known well enough."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "decoupled_weight_decay": decoupled_weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        means = {name: flambeau.zeros_like(param) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), **means}

    def _scratch_count(self, group: Group) -> int:
        return 1 if changes_gradients(group) else 0

    def _update(self, group: Group) -> None:
        rate, (beta1, beta2), eps = float(group["lr"]), group["betas"], group["eps"]
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        longest = 2 / (1 - beta2) - 1
        for param, grad in self._gradients(group, 0 if decoupled else decay):
            state = self.state[param]
            state["step"].add_(1)
            step = state["step"].item()
            if decay != 0 and decoupled:
                param.mul_(1 - rate * decay)
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            correction1, correction2 = 1 - beta1**step, 1 - beta2**step
            length = longest - 2 * step * beta2**step / correction2
            if length <= 5.0:
                param.add_(mean, alpha=-rate / correction1)
                continue
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            factor = rate / correction1 * (rectified * correction2) ** 0.5
            param.addcdiv_(mean, square.sqrt().add_(eps), value=-factor)
