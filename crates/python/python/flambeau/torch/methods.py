"""What the classes of Flambeau get while they stand for PyTorch's: PyTorch's name in their texts, and names that fail when called."""

from __future__ import annotations

import flambeau
from flambeau import Size, Tensor, _methods, return_types
from flambeau.torch import names, placeholders
from flambeau.torch.shims import tensor_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_before: list[tuple[Any, str, Any]] = []
_absent = object()


def _set(owner: Any, name: str, value: Any) -> None:
    _before.append((owner, name, owner.__dict__.get(name, _absent)))
    setattr(owner, name, value)


def _rename(owner: Any, name: str) -> None:
    """Lets a method that returns a text write PyTorch's name in it."""
    plain = getattr(owner, name)
    _set(owner, name, lambda *arguments: plain(*arguments).replace("flambeau.", "torch."))


def install() -> None:
    """Changes the classes."""
    for owner in (flambeau.dtype, flambeau.layout, flambeau.memory_format, Tensor):
        _rename(owner, "__repr__")
    _rename(Tensor, "__format__")
    # Programs that serve several libraries ask which one a value is from by the module of its class.
    _set(Tensor, "__module__", "torch")
    _set(return_types, "PACKAGE", "torch")
    _set(Size, "__repr__", lambda self: f"torch.Size([{', '.join(map(str, self))}])")
    _set(_methods, "PACKAGE", "torch")
    more = tensor_methods.methods()
    for name in names.of("torch.Tensor"):
        if not hasattr(Tensor, name):
            _set(Tensor, name, more[name] if name in more else placeholders.function(f"torch.Tensor.{name}"))


def uninstall() -> None:
    """Takes the changes back."""
    for owner, name, value in reversed(_before):
        if value is _absent:
            delattr(owner, name)
        else:
            setattr(owner, name, value)
    _before.clear()
