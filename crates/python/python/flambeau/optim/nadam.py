"""NAdam, which is Adam with Nesterov's momentum (Dozat, 2016)."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class NAdam(Optimizer):
    """Steps by the mean of the gradient as it will be, over the root of the mean of its square."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        refuse("momentum_decay value", momentum_decay, momentum_decay >= 0.0)
        refuse_choices(capturable, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
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
        one = flambeau.ones((), dtype=flambeau.float32)
        means = {name: flambeau.zeros_like(param) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), "mu_product": one, **means}

    def _scratch_count(self, group: Group) -> int:
        return 1 if changes_gradients(group) else 0

    def _update(self, group: Group) -> None:
        rate, (beta1, beta2), eps = float(group["lr"]), group["betas"], group["eps"]
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        for param, grad in self._gradients(group, 0 if decoupled else decay):
            state = self.state[param]
            state["step"].add_(1)
            step = state["step"].item()
            if decay != 0 and decoupled:
                param.mul_(1 - rate * decay)
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            momentum, following = (beta1 * (1.0 - 0.5 * 0.96 ** (at * group["momentum_decay"])) for at in (step, step + 1))
            state["mu_product"].mul_(momentum)
            product = state["mu_product"].item()
            mean.lerp_(grad, 1 - beta1)
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            length = square.div(1 - beta2**step).sqrt_().add_(eps)
            param.addcdiv_(grad, length, value=-rate * (1.0 - momentum) / (1.0 - product))
            param.addcdiv_(mean, length, value=-rate * following / (1.0 - product * following))
