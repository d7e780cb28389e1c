"""A tensor library with automatic differentiation, with the names and the behaviour of PyTorch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    # A type checker keeps the first of two definitions; when the program runs the last one is in force.
    from ._functions import *

from . import _flambeau
from ._flambeau import *  # type: ignore[assignment] # noqa: F403
from ._flambeau import __version__ as __version__, _fft as _fft, _linalg as _linalg, _nn as _nn, _special as _special
from ._size import Size as Size
from ._modes import enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad, set_grad_enabled as set_grad_enabled
from . import _copying, _default_device, _exchange, _functions, _methods, _overrides, _sparse
from ._exchange import *  # noqa: F403
from ._functions import *  # noqa: F403
from ._sparse import *  # noqa: F403
from ._default_device import get_default_device as get_default_device, set_default_device as set_default_device
from ._limits import finfo as finfo, iinfo as iinfo
from . import autograd as autograd, fft as fft, linalg as linalg, special as special

_methods.install(Tensor)  # noqa: F405
_sparse.install(Tensor)  # noqa: F405
_exchange.install(Tensor)  # noqa: F405
_copying.install(Tensor, UntypedStorage)  # noqa: F405
_overrides.install(Tensor)  # noqa: F405
_functions.install(Tensor, Generator)  # noqa: F405
_default_device.install(device)  # noqa: F405
globals().update((alias, getattr(_flambeau, name)) for alias, name in _methods.ALIASES.items())

if TYPE_CHECKING:
    # What `__getattr__` imports, for editors and type checkers.
    from . import amp as amp, array_api as array_api, cuda as cuda, distributed as distributed, distributions as distributions
    from . import masked as masked, random as random, signal as signal, testing as testing
    from . import func as func, multiprocessing as multiprocessing, nn as nn, ops as ops, optim as optim, profiler as profiler
    from . import quasirandom as quasirandom, sparse as sparse, utils as utils
    from ._compile import compile as compile
    from .func import vmap as vmap  # type: ignore[no-redef]
    from .linalg._lobpcg import lobpcg as lobpcg
    from .serialization import load as load, save as save


_MODULES = (
    "amp",
    "array_api",
    "cuda",
    "distributed",
    "distributions",
    "func",
    "library",
    "masked",
    "multiprocessing",
    "nn",
    "ops",
    "optim",
    "overrides",
    "profiler",
    "quasirandom",
    "random",
    "signal",
    "sparse",
    "testing",
    "torch",
    "utils",
    "vision",
    "viz",
)

# What the Array API standard has under names that are not PyTorch's.
_STANDARD = (
    "__array_api_version__",
    "__array_namespace_info__",
    "astype",
    "bitwise_invert",
    "broadcast_arrays",
    "cumulative_prod",
    "cumulative_sum",
    "expand_dims",
    "isdtype",
    "matrix_transpose",
    "permute_dims",
    "repeat",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "vecdot",
)


def __getattr__(name: str) -> Any:
    """Modules that not every program needs are imported on first access."""
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"flambeau.{name}")
    if name in ("save", "load"):
        from flambeau import serialization

        return getattr(serialization, name)
    if name == "vmap":
        from flambeau import func

        return func.vmap
    if name == "compile":
        from flambeau import _compile

        return _compile.compile
    if name == "lobpcg":
        from flambeau.linalg import _lobpcg

        return _lobpcg.lobpcg
    if name in _STANDARD:
        from flambeau import array_api

        return getattr(array_api, name)
    raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
