"""A tensor library with automatic differentiation, with the names and the behaviour of PyTorch."""

from . import _flambeau
from ._flambeau import *  # noqa: F403
from ._flambeau import __version__, _linalg, _nn
from ._size import Size
from ._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from . import _methods
from ._functions import *  # noqa: F403
from . import autograd, linalg

_methods.install(Tensor)  # noqa: F405
