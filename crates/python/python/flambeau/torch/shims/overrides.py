"""torch.overrides: `__torch_function__`, by PyTorch's names."""

from __future__ import annotations

import contextlib

from flambeau import Tensor
from flambeau._overrides import DisableFlambeauFunction
from flambeau._overrides import handle_flambeau_function as handle_torch_function
from flambeau._overrides import has_flambeau_function as has_torch_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

DisableTorchFunction = DisableTorchFunctionSubclass = DisableFlambeauFunction
_disabled_torch_function_impl = None


def has_torch_function_unary(tensor: Any) -> bool:
    """Whether the class of the argument has an override."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """Whether the class of an argument has an override."""
    return has_torch_function(tensors)


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor or has an override."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results stay plain tensors."""
    return set()


def get_ignored_functions() -> set[Any]:
    """Functions that no override is called for."""
    return set()


def get_overridable_functions() -> dict[Any, list[Any]]:
    """The methods of tensors, which overrides are called for."""
    return {Tensor: [value for value in vars(Tensor).values() if callable(value)]}


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is a method of tensors."""
    return any(value is func for value in vars(Tensor).values())


def resolve_name(f: Any) -> str | None:
    """The name of a function."""
    return getattr(f, "__name__", None)


def wrap_torch_function(dispatcher: Any) -> Any:
    """A decorator: the function calls the overrides of the arguments that `dispatcher` names."""

    def decorate(function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


class TorchFunctionMode:
    """A mode that sees every call inside of it: a subclass has a `__torch_function__` that may do something else."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the mode does; a subclass has its own."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        from flambeau import _function_modes

        _function_modes.enter(self)
        return self

    def __exit__(self, *raised: object) -> None:
        from flambeau import _function_modes

        _function_modes.leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A mode, by the name that PyTorch had for making one."""
        return cls(*args, **kwargs)


BaseTorchFunctionMode = TorchFunctionMode


def enable_reentrant_dispatch() -> Any:
    """A context that does nothing."""
    return contextlib.nullcontext()
