"""Adam (Kingma and Ba, 2015), and with weight decay apart from the gradient (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

import flambeau
from flambeau import _dispatch, _flambeau
from flambeau.nn.parameter import Parameter
from flambeau.optim.optimizer import Optimizer, changes_gradients, refuse, refuse_choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Group, Parameters

_FLOATING = (flambeau.float16, flambeau.bfloat16, flambeau.float32, flambeau.float64)


class Adam(Optimizer):
    """Steps by the running mean of the gradient over the root of that of its square.

    `amsgrad` keeps the largest of the latter (Reddi et al., 2018). `foreach` and `fused` are PyTorch's choices of
    implementation and change nothing here.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
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
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _is_new(self, param: Tensor, group: Group) -> bool:
        return not self.state.get(param)

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))
        means = {name: flambeau.zeros_like(param) for name in names}
        return {"step": flambeau.tensor(0.0, dtype=flambeau.float32), **means}

    def _scratch_count(self, group: Group) -> int:
        return 2 if changes_gradients(group) else 1

    def _update(self, group: Group) -> None:
        in_one_pass = not group["amsgrad"] and _has_plain_numbers(group) and not _dispatch.stack()
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            state = self.state[param]
            if in_one_pass and _is_updated_in_one_pass(param, grad, state):
                self._update_in_one_pass(param, grad, state, group)
            else:
                self._update_by_operators(param, grad, state, group)

    def _update_in_one_pass(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        """What `_update_by_operators` does, to the bit."""
        rate, (beta1, beta2), decay = float(group["lr"]), group["betas"], group["weight_decay"]
        kept = 1.0
        if group["decoupled_weight_decay"]:
            kept, decay = (1 - rate * decay if decay != 0 else 1.0), 0.0
        state["step"].add_(1)
        step = state["step"].item()
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step
        numbers = rate / correction1, beta1, beta2, group["eps"], correction2**0.5, kept, decay
        flambeau._adam_step_(param, state["exp_avg"], state["exp_avg_sq"], grad, *numbers, bool(group["maximize"]))

    def _update_by_operators(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Group) -> None:
        rate, (beta1, beta2) = float(group["lr"]), group["betas"]
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        grad = self._changed_gradient(param, grad, group, 0 if decoupled else decay)
        state["step"].add_(1)
        if decay != 0 and decoupled:
            param.mul_(1 - rate * decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            square = flambeau.maximum(state["max_exp_avg_sq"], square, out=state["max_exp_avg_sq"])
        # Both means begin at 0; dividing by these makes up for it.
        step = state["step"].item()
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step
        length = flambeau.sqrt(square, out=self._scratch_tensor(param, -1)).div_(correction2**0.5).add_(group["eps"])
        param.addcdiv_(mean, length, value=-(rate / correction1))


def _has_plain_numbers(group: Group) -> bool:
    """Whether the options that a step computes with are numbers, and no tensors."""
    return all(isinstance(value, (int, float)) for value in (*group["betas"], group["eps"], group["weight_decay"]))


def _is_updated_in_one_pass(param: Tensor, grad: Tensor, state: dict[str, Any]) -> bool:
    """Whether one kernel can compute the step: of strided floating point numbers of one type, which no class of Python sees."""
    dtype = param.dtype
    if dtype not in _FLOATING or _flambeau._is_batched(param):
        return False
    for tensor in (param, grad, state["exp_avg"], state["exp_avg_sq"]):
        if not (type(tensor) is flambeau.Tensor or type(tensor) is Parameter) or tensor.dtype != dtype:
            return False
        if tensor.layout != flambeau.strided or tensor.device.type != "cpu" or tensor.shape != param.shape:
            return False
    return True


class AdamW(Adam):
    """Adam, of which weight decay shrinks parameters by itself, not through the gradient."""

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
