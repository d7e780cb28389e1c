"""torch.autograd: names from before tensors had gradients of their own."""

from __future__ import annotations

from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _VariableMeta(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)

    def __call__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        return data.detach().requires_grad_() if requires_grad else data


class Variable(metaclass=_VariableMeta):
    """A tensor: `Variable(x)` is `x`."""


def variable(*args: Any, **kwargs: Any) -> Tensor:
    """A tensor of the data."""
    import flambeau

    return flambeau.tensor(*args, **kwargs)


class set_multithreading_enabled:
    """Changes nothing: a backward pass runs on the thread that calls it."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass


def _profiler_enabled() -> bool:
    return False


def _disable_profiler() -> None:
    """Ends nothing."""
