"""A tensor library with automatic differentiation, with the names and the behaviour of PyTorch."""

from . import _flambeau
from ._flambeau import *  # noqa: F403
from ._flambeau import __version__, _linalg, _nn
from ._size import Size
from ._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from . import _copying, _exchange, _functions, _methods, _overrides
from ._exchange import *  # noqa: F403
from ._functions import *  # noqa: F403
from ._limits import finfo, iinfo
from . import autograd, linalg, special

_methods.install(Tensor)  # noqa: F405
_exchange.install(Tensor)  # noqa: F405
_copying.install(Tensor)  # noqa: F405
_overrides.install(Tensor)  # noqa: F405
_functions.install(Tensor, Generator)  # noqa: F405
globals().update((alias, getattr(_flambeau, name)) for alias, name in _methods.ALIASES.items())

TYPE_CHECKING = False
if TYPE_CHECKING:
    # What `__getattr__` imports, for editors and type checkers.
    from . import multiprocessing, nn, optim, utils
    from .serialization import load, save


def __getattr__(name: str):
    """Modules that not every program needs are imported when they are first asked for."""
    if name in ("multiprocessing", "nn", "overrides", "optim", "utils", "viz"):
        from importlib import import_module

        return import_module(f"flambeau.{name}")
    if name in ("save", "load"):
        from flambeau import serialization

        return getattr(serialization, name)
    raise AttributeError(f"module 'flambeau' has no attribute '{name}'")
