"""Modes that see every call of a function or method of this library, whatever its arguments are: PyTorch's `TorchFunctionMode`."""

from __future__ import annotations

import threading

from . import _flambeau, _overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Active(threading.local):
    """The modes of a thread, the innermost last."""

    def __init__(self) -> None:
        self.modes: list[Any] = []


_active = _Active()
# How many modes all threads have entered. While there are any, the special methods of `Tensor` are functions that look for modes.
_entered = 0
_lock = threading.Lock()
_plain: dict[str, Any] = {}


def _special(name: str) -> Any:
    plain = _plain[name]
    named = _overrides.METHOD_OF.get(name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _active.modes and _overrides._are_overrides_enabled():
            # The mode calls the function again, which the modes around it see.
            if named is None:
                return _overrides.call_override(method, (self, *args), kwargs)
            return _overrides.call_special(getattr(_flambeau.Tensor, named), (self, *args), kwargs)
        return plain(self, *args, **kwargs)

    method.__name__ = name
    return method


def _names() -> list[str]:
    reflected = [f"__r{name}__" for name in _overrides.OPERATORS]
    return [name for name in (*_overrides.METHODS, *reflected) if name in vars(_flambeau.Tensor)]


def _count(change: int) -> None:
    """Counts the modes of all threads, and replaces the special methods with the first one."""
    global _entered
    with _lock:
        before, _entered = _entered, _entered + change
        if before == 0:
            _overrides.enable()
            for name in _names():
                _plain[name] = vars(_flambeau.Tensor)[name]
                setattr(_flambeau.Tensor, name, _special(name))
        elif _entered == 0:
            for name, plain in _plain.items():
                setattr(_flambeau.Tensor, name, plain)
            _plain.clear()


def enter(mode: Any) -> None:
    """Lets the mode see the calls of this thread."""
    _count(1)
    _active.modes.append(mode)
    _flambeau._set_mode_active(True)


def leave() -> None:
    """Ends the innermost mode."""
    _active.modes.pop()
    _flambeau._set_mode_active(bool(_active.modes))
    _count(-1)


def call(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Calls the innermost mode, inside of which only those around it are active."""
    mode = _active.modes.pop()
    _flambeau._set_mode_active(bool(_active.modes))
    try:
        return mode.__torch_function__(func, types, args, kwargs)
    finally:
        _active.modes.append(mode)
        _flambeau._set_mode_active(True)


def stack() -> list[Any]:
    """The modes of this thread, the innermost last."""
    return list(_active.modes)
