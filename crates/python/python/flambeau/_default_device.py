"""The device of new tensors: `set_default_device`, and devices as contexts.

Functions that make tensors take the device as an argument. While another device than the CPU is the default, the package has
versions of them that give it, for all threads; programs that set none do not pay for the choice.
"""

from __future__ import annotations

import sys

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["get_default_device", "set_default_device"]

FACTORIES = (
    "arange",
    "as_tensor",
    "bartlett_window",
    "blackman_window",
    "empty",
    "empty_strided",
    "eye",
    "full",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
)
CPU = _flambeau.device("cpu")
_chosen: list[Any] = [CPU]


def get_default_device() -> _flambeau.device:
    """The device of new tensors."""
    return _chosen[-1]


def set_default_device(device: _flambeau.device | str | None) -> None:
    """Makes new tensors on a device from now on; None is the CPU."""
    _chosen[-1] = CPU if device is None else _flambeau.device(device)
    _apply()


def _enter(self: Any) -> Any:
    """Inside it, new tensors are on the device."""
    _chosen.append(self)
    _apply()
    return self


def _exit(self: Any, *raised: object) -> None:
    _chosen.pop()
    _apply()


def _apply() -> None:
    """Sets the functions of the package, and of `torch` if that is this package."""
    device = _chosen[-1]
    for name in FACTORIES:
        plain = getattr(_flambeau, name)
        chosen = plain if device == CPU else _on_device(plain, device)
        for module in (sys.modules["flambeau"], sys.modules.get("torch")):
            if module is not None and (module.__name__ == "flambeau" or name in vars(module)):
                vars(module)[name] = chosen


def _on_device(function: Any, device: Any) -> Any:
    import functools

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is None:
            source = args[0] if args and function.__name__ == "as_tensor" else None
            if not isinstance(source, _flambeau.Tensor):
                kwargs["device"] = device
        return function(*args, **kwargs)

    return made


def _call(self: Any, function: Any) -> Any:
    """A decorator: new tensors inside the function are on the device."""
    import functools

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with self:
            return function(*args, **kwargs)

    return inside


def install(device: Any) -> None:
    """Makes devices contexts and decorators."""
    device.__enter__, device.__exit__, device.__call__ = _enter, _exit, _call
