"""`__torch_dispatch__`: classes and modes that see every operator below autograd, with the operator as an object.

A class method `__torch_dispatch__(cls, func, types, args=(), kwargs=None)`, or `__flambeau_dispatch__`, gets calls that have an object
of its class among their arguments; that of a mode (`flambeau.utils._python_dispatch.TorchDispatchMode`) gets all calls of its thread.
"""

from __future__ import annotations

from _thread import _local

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Active(_local):
    """The modes of a thread, the innermost last."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_active = _Active()


def enter(mode: Any) -> None:
    """Lets the mode see the calls of this thread."""
    _active.modes.append(mode)
    _flambeau._set_dispatch_mode_active(True)


def leave() -> Any:
    """Ends the innermost mode, and returns it."""
    mode = _active.modes.pop()
    _flambeau._set_dispatch_mode_active(bool(_active.modes))
    return mode


def stack() -> list[Any]:
    """The modes of this thread, the innermost last."""
    return list(_active.modes)


# What single classes and modes do with single operators, instead of their `__torch_dispatch__`.
rules: dict[tuple[Any, type], Any] = {}


def dispatch(func: Any, objects: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls the innermost mode, then the classes of the objects, until one does not return NotImplemented."""
    objects = _one_of_each_class(objects) if len(objects) > 1 else objects
    types = tuple(type(value) for value in objects)
    if _active.modes:
        mode = leave()
        try:
            rule = rules.get((func, type(mode))) if rules else None
            answer = rule(mode, func, types, args, kwargs) if rule else mode.__torch_dispatch__(func, types, args, kwargs)
        finally:
            enter(mode)
        if answer is not NotImplemented:
            return answer
    for kind in types:
        rule = rules.get((func, kind)) if rules else None
        answer = rule(kind, func, types, args, kwargs) if rule else kind.__flambeau_dispatch__(func, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    names = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in types)
    raise TypeError(
        f"Multiple dispatch failed for '{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        f"  - tensor subclasses: {names or 'none'}\n  - modes: {[type(mode).__name__ for mode in _active.modes]}"
    )


def _one_of_each_class(objects: list[Any]) -> list[Any]:
    """One object of each class, those of subclasses before those of their bases, else in order."""
    found: list[Any] = []
    for value in objects:
        if not any(type(value) is type(other) for other in found):
            before = (i for i, other in enumerate(found) if issubclass(type(value), type(other)))
            found.insert(next(before, len(found)), value)
    return found


def _disabled_torch_dispatch_impl(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_dispatch__` of `Tensor`: the operator on the objects' own elements, without classes and modes."""
    return _flambeau._call_below_dispatch(func, tuple(args), kwargs)


def has_dispatch(cls: type) -> bool:
    """Whether objects of the class see their operators."""
    return getattr(cls, "__flambeau_dispatch__", None) is not None


def init_subclass(cls: type) -> None:
    """Gives a class that has the protocol under one of its names the other one too."""
    own = cls.__dict__
    for name, other in (("__torch_dispatch__", "__flambeau_dispatch__"), ("__flambeau_dispatch__", "__torch_dispatch__")):
        if name in own and other not in own:
            setattr(cls, other, None if _is_disabled(own[name]) and other == "__flambeau_dispatch__" else own[name])
    if has_dispatch(cls):
        # Attributes in `__dict__` are kept while only Rust holds the tensor; values in slots would be lost.
        slots = own.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if not name.startswith("__") and name in own:
                delattr(cls, name)


def _is_disabled(handler: Any) -> bool:
    return handler is None or getattr(handler, "__func__", handler) is _disabled_torch_dispatch_impl


def _make_wrapper_subclass(
    cls: Any,
    size: Any,
    strides: Any = None,
    storage_offset: Any = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = _flambeau.strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: Any = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: Any = None,
) -> Any:
    """An object of `cls` with sizes, strides, a dtype and a device, and no elements: `__torch_dispatch__` says what operators do."""
    if not has_dispatch(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if layout != _flambeau.strided:
        raise NotImplementedError(f"_make_wrapper_subclass: expected the layout flambeau.strided but got {layout}")
    if strides is None and memory_format is not None:
        strides = _flambeau.empty(tuple(size), memory_format=memory_format, device="meta").stride()
    strides = None if strides is None else tuple(strides)
    return _flambeau._make_wrapper_subclass(cls, tuple(size), strides, storage_offset, dtype, device, requires_grad)


def install(tensor: Any) -> None:
    """Puts the protocol on the class."""
    tensor.__torch_dispatch__ = staticmethod(_disabled_torch_dispatch_impl)
    tensor.__flambeau_dispatch__ = None
    tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)


def rebuild_wrapper(cls: Any, dtype: Any, size: Any, strides: Any, offset: int, device: Any, requires_grad: bool, state: Any) -> Any:
    """A wrapper as it was pickled."""
    made = _flambeau._make_wrapper_subclass(cls, size, strides, offset, dtype, device, requires_grad)
    _set_state(made, cls, state)
    return made


def _set_state(made: Any, cls: Any, state: Any) -> None:
    restore = getattr(cls, "__setstate__", None)
    if restore is not None:
        restore(made, state)
    else:
        made.__dict__.update(state)


def reduce_wrapper(self: Any, state: Any) -> Any:
    """How a wrapper is pickled: its class, its geometry, and its attributes."""
    geometry = (self.dtype, tuple(self.shape), self.stride(), self.storage_offset(), str(self.device), self.requires_grad)
    return rebuild_wrapper, (type(self), *geometry, state)


def copy_wrapper(self: Any, memo: dict[int, Any]) -> Any:
    """A deep copy, of an object whose class has `clone`."""
    from copy import deepcopy

    with _flambeau_no_grad():
        made = self.detach().clone()
    if type(made) is not type(self):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that properly "
            f"implement clone(), and for which cloning returns another instance of the same subclass: got {type(made).__name__}"
        )
    memo[id(self)] = made
    own = made.__dict__
    for name, value in self.__dict__.items():
        # What `clone` has made anew is a copy already.
        if name not in own or own[name] is value:
            own[name] = deepcopy(value, memo)
    if self.grad is not None:
        made.grad = deepcopy(self.grad, memo)
    return made.requires_grad_(self.requires_grad) if self.requires_grad else made


def _flambeau_no_grad() -> Any:
    from ._modes import no_grad

    return no_grad()
