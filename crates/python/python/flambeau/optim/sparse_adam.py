"""Adam for sparse gradients; of dense ones, the elements that are 0 are skipped."""

from __future__ import annotations

import flambeau
from flambeau.optim.optimizer import Optimizer, refuse, rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters


class SparseAdam(Optimizer):
    """Adam of the elements that a sparse gradient has; all others keep value and state. Of a dense gradient those are the elements that
    are not 0.

    `weight_decay` adds that share of a parameter to its gradient. It requires `lazy=True`, which says that elements without a gradient
    do not decay; neither is in PyTorch."""

    _takes_sparse = True

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
        *,
        weight_decay: float = 0.0,
        lazy: bool = False,
    ) -> None:
        refuse("learning rate", lr, lr > 0.0)
        refuse("epsilon value", eps, eps > 0.0)
        for index, beta in enumerate(betas):
            refuse(f"beta parameter at index {index}", beta, 0.0 <= beta < 1.0)
        refuse("weight_decay value", weight_decay, weight_decay >= 0.0)
        if weight_decay and not lazy:
            raise ValueError(
                "expected lazy=True with weight_decay, which is then for the elements that a gradient has, and for no others"
            )
        options = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, {**options, "weight_decay": weight_decay, "lazy": lazy})

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
            if grad.is_sparse:
                self._update_rows(param, grad, group)
                continue
            there = grad != 0
            if group["weight_decay"]:
                grad = flambeau.where(there, grad.add(param, alpha=group["weight_decay"]), grad)
            mean, square = state["exp_avg"], state["exp_avg_sq"]
            mean.copy_(flambeau.where(there, mean.lerp(grad, 1 - beta1), mean))
            square.copy_(flambeau.where(there, square.lerp(grad * grad, 1 - beta2), square))
            factor = rate * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
            change = mean / (square.sqrt().add_(group["eps"]))
            param.add_(flambeau.where(there, change, flambeau.zeros_like(change)), alpha=-factor)

    def _update_rows(self, param: Tensor, grad: Tensor, group: Group) -> None:
        """A step for the elements of a coalesced gradient."""
        state, (beta1, beta2) = self.state[param], group["betas"]
        index, values = rows_of(grad)
        if values.numel() == 0:
            return
        decay = group["weight_decay"]
        tensors = param, state["exp_avg"], state["exp_avg_sq"]
        if len(index) == 1 and all(_is_updated_in_one_pass(tensor, values) for tensor in tensors):
            numbers = float(group["lr"]), beta1, beta2, group["eps"], decay, float(state["step"])
            flambeau._sparse_adam_(*tensors, index[0], values, *numbers)
            return
        if decay:
            values = values.add(param[index], alpha=decay)
        mean, square = state["exp_avg"][index].lerp_(values, 1 - beta1), state["exp_avg_sq"][index]
        square = square.lerp_(values * values, 1 - beta2)
        state["exp_avg"][index], state["exp_avg_sq"][index] = mean, square
        factor = float(group["lr"]) * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        param.index_put_(index, mean.div_(square.sqrt_().add_(group["eps"])).mul_(-factor), accumulate=True)


def _is_updated_in_one_pass(tensor: Tensor, values: Tensor) -> bool:
    """Whether one kernel can compute the step of rows of this tensor."""
    is_wide = tensor.dtype in (flambeau.float32, flambeau.float64) and tensor.dtype == values.dtype
    is_dense = tensor.layout == flambeau.strided and tensor.is_contiguous()
    return is_wide and is_dense and tensor.device.type == "cpu"
