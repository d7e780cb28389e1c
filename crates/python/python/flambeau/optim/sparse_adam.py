"""Adam for gradients that are sparse tensors, which there are none of: gradients that are 0 are skipped."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class SparseAdam(Optimizer):
    """Adam of the elements whose gradient is not 0; all others keep value and state."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr > 0.0)
        refuse("epsilon value", eps, eps > 0.0)
        for index, beta in enumerate(betas):
            refuse(f"beta parameter at index {index}", beta, 0.0 <= beta < 1.0)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {"step": 0, "exp_avg": flambeau.zeros_like(param), "exp_avg_sq": flambeau.zeros_like(param)}

    def _scratch_count(self, group: Group) -> int:
        return 1 if group["maximize"] else 0

    def _update(self, group: Group) -> None:
        rate, (beta1, beta2) = float(group["lr"]), group["betas"]
        for param, grad in self._gradients(group, 0):
            state = self.state[param]
            state["step"] += 1
            there = grad != 0
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.copy_(flambeau.where(there, mean.lerp(grad, 1 - beta1), mean))
            square.copy_(flambeau.where(there, square.lerp(grad * grad, 1 - beta2), square))
            factor = rate * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
            change = mean / (square.sqrt().add_(group["eps"]))
            param.add_(flambeau.where(there, change, flambeau.zeros_like(change)), alpha=-factor)
