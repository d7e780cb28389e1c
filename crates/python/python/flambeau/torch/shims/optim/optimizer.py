"""torch.optim.optimizer: names that packages use of PyTorch's base of optimisers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Union

from flambeau import Tensor

ParamsT = Union[Iterable[Tensor], Iterable[dict[str, Any]], Iterable[tuple[str, Tensor]]]
_params_doc = _foreach_doc = _fused_doc = _maximize_doc = _capturable_doc = _differentiable_doc = ""
StateDict = dict[str, Any]


def _use_grad_for_differentiable(func: Any) -> Any:
    """The function without recording, since no step here is differentiable."""
    import functools

    import flambeau

    @functools.wraps(func)
    def step(*args: Any, **kwargs: Any) -> Any:
        with flambeau.no_grad():
            return func(*args, **kwargs)

    return step


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    return False, False


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: float) -> float:
    return float(x) ** 0.5


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    import flambeau

    return flambeau.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return []


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Changes nothing: there are no complex numbers."""


def register_optimizer_step_pre_hook(hook: Any) -> Any:
    """NotImplementedError: optimisers have hooks of their own only."""
    from flambeau.torch.placeholders import refuse

    raise refuse("torch.optim.optimizer.register_optimizer_step_pre_hook")
