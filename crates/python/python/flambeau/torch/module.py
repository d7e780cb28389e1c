"""Modules of `torch`, whose attributes are looked up on first use: in Flambeau's modules, and then among PyTorch's names."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from flambeau.torch import layout, placeholders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def own_dict(module: ModuleType) -> dict[str, Any]:
    """The names that a module has so far."""
    names: Any = type.__getattribute__(ModuleType, "__dict__")["__dict__"]
    found: dict[str, Any] = names.__get__(module)
    return found


class TorchModule(ModuleType):
    """A module under PyTorch's path.

    An attribute is, in this order: one of the shim's `OVERRIDES`, a submodule, what one of the module's sources has, or a placeholder for a name that PyTorch has.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__", "__config__", "__future__"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        value = self._found(name)
        own_dict(self)[name] = value
        return value

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The names so far, with all that the module exports: programs that look for classes in it find those that are imported lazily."""
        own = own_dict(self)
        for source in layout.sources(self.__name__):
            for name in getattr(source, "__all__", ()):
                if name not in own:
                    getattr(self, name)
        return own

    def _found(self, name: str) -> Any:
        path = f"{self.__name__}.{name}"
        if name == "__all__":
            return layout.public_names(self.__name__)
        shim = layout.shim(self.__name__)
        if shim is not None and name in shim.__dict__.get("OVERRIDES", ()):
            return getattr(shim, name)
        if path == "torch.torch":
            return sys.modules["torch"]
        if layout.is_submodule(path) and not layout.is_function(path):
            return import_module(path)
        for source in layout.sources(self.__name__):
            value = getattr(source, name, layout.MISSING)
            if value is layout.MISSING:
                continue
            if isinstance(value, ModuleType) and layout.is_module(path):
                return import_module(path)
            return value
        return placeholders.of(path, layout.kind_of(self.__name__, name))

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets the attribute, and replaces what Flambeau's own module has under the name, so that programs can patch it."""
        own_dict(self)[name] = value
        if name.startswith("__") or isinstance(value, TorchModule):
            return
        for source in layout.sources(self.__name__):
            if not isinstance(source, TorchModule) and name in source.__dict__:
                setattr(source, name, value)
                return

    def __dir__(self) -> list[str]:
        return sorted({*own_dict(self), *layout.public_names(self.__name__)})
