"""Resilient backpropagation (Riedmiller and Braun, 1993)."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class Rprop(Optimizer):
    """Steps by the sign of the gradient, of a length of its own for each element, which grows while the sign stays."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("eta values", etas, 0.0 < etas[0] < 1.0 < etas[1])
        refuse_choices(capturable, differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        lengths = flambeau.full_like(param, float(group["lr"]))
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), "prev": flambeau.zeros_like(param), "step_size": lengths}

    def _scratch_count(self, group: Group) -> int:
        return 1 if group["maximize"] else 0

    def _update(self, group: Group) -> None:
        (shrink, grow), (shortest, longest) = group["etas"], group["step_sizes"]
        for param, grad in self._gradients(group, 0):
            state = self.state[param]
            state["step"].add_(1)
            same = (grad * state["prev"]).sign_()
            factor = flambeau.where(same > 0, grow, 1.0).masked_fill_(same < 0, shrink).to(param.dtype)
            lengths = state["step_size"].mul_(factor).clamp_(shortest, longest)
            # Where the sign changed there is no step now, and no comparison at the next one.
            grad = grad.masked_fill(same < 0, 0)
            param.addcmul_(grad.sign(), lengths, value=-1)
            state["prev"].copy_(grad)
