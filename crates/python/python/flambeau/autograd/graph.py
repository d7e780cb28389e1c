"""Hooks on the tensors that a graph saves for its backward pass."""

from __future__ import annotations

from _thread import _local

from .. import _flambeau
from .._flambeau import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._flambeau import Tensor

__all__ = ["Node", "disable_saved_tensors_hooks", "save_on_cpu", "saved_tensors_hooks"]

# The messages of the contexts of this thread that refuse hooks, the innermost last.
_refusing = _local()


class saved_tensors_hooks:
    """Inside it a graph saves what `pack_hook` returns for each tensor, and gets the tensor back from `unpack_hook`.

    The hooks belong to the thread; of several pairs the innermost counts. What they compute is not recorded.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if getattr(_refusing, "messages", None):
            raise RuntimeError(_refusing.messages[-1])
        _flambeau._enter_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *raised: object) -> None:
        _flambeau._leave_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside it a graph saves tensors in host memory, and copies them back to their device for the backward pass."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if pin_memory:
            raise ValueError("pinned memory needs a CUDA device")
        super().__init__(
            lambda tensor: (tensor.device, tensor.to("cpu", copy=True)), lambda packed: packed[1].to(packed[0])
        )


class disable_saved_tensors_hooks:
    """A context, and a decorator, inside of which entering `saved_tensors_hooks` is an error with a message."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        _refusing.messages = [*getattr(_refusing, "messages", ()), self.error_message]

    def __exit__(self, *raised: object) -> None:
        _refusing.messages = _refusing.messages[:-1]

    def __call__(self, function: Any) -> Any:
        from functools import wraps

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside
