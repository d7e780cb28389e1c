"""torch.ops: beside the operators that there are, functions of this library by the names that PyTorch's operators have."""

from __future__ import annotations

import importlib
import os

import flambeau
from flambeau import _ops, _plugins
from flambeau.torch import placeholders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Overloads:
    """A function that stands for an operator, whose overloads are itself."""

    stands_for_operator = True

    def __init__(self, name: str, function: Any) -> None:
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


# Packages whose operators are here as functions, and the modules that have them.
LIBRARIES = {"torchvision": "flambeau.vision"}
_loaded: dict[str, dict[str, Any]] = {}


def _find(namespace: str, name: str) -> Any:
    function = _loaded.get(namespace, {}).get(name)
    if function is None and namespace in ("aten", "prims"):
        owners = (flambeau, flambeau._nn, flambeau.Tensor)
        function = next((getattr(owner, name) for owner in owners if hasattr(owner, name)), None)
    if function is None and (namespace in ("aten", "prims") or namespace in LIBRARIES):
        function = placeholders.function(f"torch.ops.{namespace}.{name}")
    return None if function is None else _Overloads(name, function)


_ops.finders.append(_find)


def load_library(path: str) -> None:
    """Loads a plug-in; of a package's library registers the operators where they are here; else OSError, as where a library does not load."""
    package = os.path.basename(os.path.dirname(path))
    if package in LIBRARIES:
        module = importlib.import_module(LIBRARIES[package])
        functions = _loaded.setdefault(package, {})
        functions.update((name, getattr(module, name)) for name in module.__all__)
        # For which CUDA it was compiled: for none.
        functions["_cuda_version"] = lambda: -1
        return
    try:
        _plugins.load_library(path)
    except OSError as error:
        # PyTorch's C++ library is not here, for which other libraries are compiled.
        raise OSError(f"torch.ops.load_library: {error}") from error


OVERRIDES = ("load_library",)
