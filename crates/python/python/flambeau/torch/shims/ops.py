"""torch.ops: operators of programs by namespace and name; PyTorch's own by the names that they have as functions."""

from __future__ import annotations

import importlib
import os

import flambeau
from flambeau import _plugins
from flambeau.torch import placeholders
from flambeau.torch.shims import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Overloads:
    """An operator, whose overloads are itself."""

    def __init__(self, name: str, function: Any) -> None:
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class Namespace:
    """The operators of a namespace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        function = library.registered(self._name).get(name)
        if function is None and self._name in ("aten", "prims"):
            function = next((getattr(owner, name) for owner in (flambeau, flambeau._nn, flambeau.Tensor) if hasattr(owner, name)), None)
        if function is None and (self._name in ("aten", "prims") or self._name in LIBRARIES):
            function = placeholders.function(f"torch.ops.{self._name}.{name}")
        if function is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        return _Overloads(name, function)


# Packages whose operators are here, and the modules that have them.
LIBRARIES = {"torchvision": "flambeau.vision"}


def load_library(path: str) -> None:
    """Loads a plug-in; of a package's library registers the operators where they are here; else OSError, as where a library does not load."""
    package = os.path.basename(os.path.dirname(path))
    if package in LIBRARIES:
        module = importlib.import_module(LIBRARIES[package])
        for name in module.__all__:
            library._registered(f"{package}::{name}", getattr(module, name))
        # For which CUDA it was compiled: for none.
        library._registered(f"{package}::_cuda_version", lambda: -1)
        return
    try:
        _plugins.load_library(path)
    except OSError as error:
        # PyTorch's C++ library is not here, for which other libraries are compiled.
        raise OSError(f"torch.ops.load_library: {error}") from error


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return Namespace(name)
