"""Adafactor (Shazeer and Stern, 2018), whose means of squares are those of rows and columns of a matrix."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class Adafactor(Optimizer):
    """Steps by the gradient over the root of its mean square, which takes memory for rows and columns only."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr >= 0.0)
        refuse("beta2_decay value", beta2_decay, beta2_decay <= 0.0)
        refuse("epsilon1 value", eps[0], eps[0] is None or eps[0] >= 0.0)
        refuse("epsilon2 value", eps[1], eps[1] >= 0.0)
        refuse("clipping threshold d value", d, d >= 1.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        defaults: dict[str, Any] = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        step = {"step": flambeau.tensor(0.0, dtype=flambeau.float32)}
        if param.dim() < 2:
            return {**step, "variance": flambeau.zeros_like(param)}
        rows, columns = (*param.shape[:-1], 1), (*param.shape[:-2], 1, param.shape[-1])
        return {**step, "row_var": param.new_zeros(rows), "col_var": param.new_zeros(columns)}

    def _scratch_count(self, group: Group) -> int:
        return 1 if group["maximize"] else 0

    def _update(self, group: Group) -> None:
        first_eps, second_eps = group["eps"]
        for param, grad in self._gradients(group, 0):
            state = self.state[param]
            eps = flambeau.finfo(param.dtype).eps if first_eps is None else first_eps
            state["step"].add_(1)
            step = state["step"].item()
            share = step ** group["beta2_decay"]
            rho = min(float(group["lr"]), 1 / step**0.5)
            alpha = max(second_eps, float(param.norm(2)) / param.numel() ** 0.5) * rho
            if group["weight_decay"] != 0:
                param.mul_(1 - float(group["lr"]) * group["weight_decay"])
            change = _variance(state, grad, share, eps).clamp_(min=eps * eps).rsqrt_().mul_(grad)
            length = max(1.0, float(change.norm(2)) / (change.numel() ** 0.5 * group["d"]))
            param.add_(change, alpha=-alpha / length)


def _variance(state: dict[str, Any], grad: Tensor, share: float, eps: float) -> Tensor:
    """The estimate of the mean square of each element."""
    if grad.dim() < 2:
        state["variance"].lerp_(grad.square(), share)
        return state["variance"].clone()
    rows, columns = state["row_var"], state["col_var"]
    rows.lerp_(grad.square().mean(-1, keepdim=True), share)
    columns.lerp_(grad.square().mean(-2, keepdim=True), share)
    return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=eps))


