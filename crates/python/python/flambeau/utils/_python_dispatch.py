"""Modes and classes of tensors that see every operator: `TorchDispatchMode`, and helpers for `__torch_dispatch__`."""

from __future__ import annotations

import contextlib

from flambeau import Tensor, _dispatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "TorchDispatchMode",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode:
    """A context in which `__torch_dispatch__(self, func, types, args=(), kwargs=None)` gets every operator of its thread.

    Inside the method only the modes around this one are active, so that calling `func` does not call it again; `with self` does.
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the operator does."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        _dispatch.enter(self)
        return self

    def __exit__(self, *raised: object) -> Any:
        _dispatch.leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode, to be entered."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """False: it is a program's own."""
        return False

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        own = cls.__dict__
        if "__flambeau_dispatch__" in own and "__torch_dispatch__" not in own:
            setattr(cls, "__torch_dispatch__", own["__flambeau_dispatch__"])


DispatchMode = BaseTorchDispatchMode = TorchDispatchMode


def _get_current_dispatch_mode() -> Any:
    """The innermost mode, or None."""
    modes = _dispatch.stack()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes of this thread, the innermost last."""
    return _dispatch.stack()


def _len_torch_dispatch_stack() -> int:
    return len(_dispatch.stack())


def _push_mode(mode: Any) -> None:
    _dispatch.enter(mode)


def _pop_mode(k: Any = None) -> Any:
    return _dispatch.leave()


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    mode = _dispatch.leave()
    try:
        yield mode
    finally:
        _dispatch.enter(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Inside it no mode is active; it gives those that are again afterwards, the innermost first."""
    modes = [_dispatch.leave() for _ in _dispatch.stack()]
    try:
        yield modes
    finally:
        for mode in reversed(modes):
            _dispatch.enter(mode)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is active on this thread."""
    return bool(_dispatch.stack())


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """The same."""
    return bool(_dispatch.stack())


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether objects of the class say which tensors they are made of: `__tensor_flatten__` and `__tensor_unflatten__`."""
    is_subclass = issubclass(t, Tensor) and t is not Tensor
    return is_subclass and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass(t: object) -> bool:
    """The same of the class of an object."""
    return is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A wrapper with its inner tensors replaced by `callback(name, tensor)`."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if tuple(made.size()) != tuple(size):
        raise AssertionError(f"Expected return value from {type(t).__name__}.__tensor_unflatten__() to have shape {size} but got {made.size()}")
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """The results of `func` for a class: of arguments that it wrote those objects themselves, else `out`.

    Wrappers have no elements, so a view shares no memory with its base, as it does in PyTorch.
    """
    schema = func._schema
    written = {frozenset(argument.alias_info.before_set): argument for argument in schema.arguments if argument.is_write}
    if not written:
        return out
    names = [argument.name for argument in schema.arguments]

    def value_of(argument: Any) -> Any:
        index = names.index(argument.name)
        return args[index] if index < len(args) else (kwargs or {}).get(argument.name)

    results = list(out) if isinstance(out, (tuple, list)) and len(schema.returns) > 1 else [out]
    for index, result in enumerate(schema.returns):
        if result.is_write:
            results[index] = value_of(written[frozenset(result.alias_info.before_set)])
    return tuple(results) if len(schema.returns) > 1 else results[0]
