"""RMSprop: Hinton, "Neural networks for machine learning", lecture 6, 2012."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class RMSprop(Optimizer):
    """Steps by the gradient over the root of the running mean of its square.

    `centered` takes the square of the running mean away (Graves, 2013). `foreach` is PyTorch's choice of implementation
    and changes nothing here.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("epsilon value", eps, eps >= 0.0)
        refuse("momentum value", momentum, momentum >= 0.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        refuse("alpha value", alpha, alpha >= 0.0)
        refuse_choices(capturable, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        chosen = (("momentum_buffer", group["momentum"] > 0), ("grad_avg", group["centered"]))
        names = ["square_avg", *(name for name, there in chosen if there)]
        return {
            "step": flambeau.tensor(0.0, dtype=flambeau.float32),
            **{name: flambeau.zeros_like(param) for name in names},
        }

    def _scratch_count(self, group: Group) -> int:
        return 2 if changes_gradients(group) else 1

    def _update(self, group: Group) -> None:
        rate, alpha = -float(group["lr"]), group["alpha"]
        for param, grad in self._gradients(group, group["weight_decay"]):
            state, length = self.state[param], self._scratch_tensor(param, -1)
            state["step"].add_(1)
            square = state["square_avg"]
            square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
            if group["centered"]:
                mean = state["grad_avg"]
                mean.lerp_(grad, 1 - alpha)
                flambeau.addcmul(square, mean, mean, value=-1, out=length).sqrt_()
            else:
                flambeau.sqrt(square, out=length)
            length.add_(group["eps"])
            if group["momentum"] > 0:
                velocity = state["momentum_buffer"]
                velocity.mul_(group["momentum"]).addcdiv_(grad, length)
                param.add_(velocity, alpha=rate)
            else:
                param.addcdiv_(grad, length, value=rate)
