"""The Array API standard, 2025.12: the names and the rules by which a program computes with arrays of any library.

    xp = x.__array_namespace__()
    y = xp.sum(xp.astype(x, xp.float64), axis=0, keepdims=True)

Arrays are tensors, and gradients flow through these functions as through the operators that they call. Functions differ from those of
the same names in `flambeau` where PyTorch and the standard disagree; `docs/array_api.md` lists what the operators of arrays do.
"""

from __future__ import annotations

from flambeau import (
    bool as bool,
    complex64 as complex64,
    complex128 as complex128,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)

from . import _constants, _creation, _data_types, _elementwise, _indexing, _linear_algebra, _manipulation
from . import _searching, _sets, _sorting, _statistical, _utility
from ._arguments import BOOLEAN, COMPLEX, REAL, SIGNED, UNSIGNED
from ._constants import *
from ._creation import *
from ._data_types import *
from ._elementwise import *
from ._indexing import *
from ._info import __array_namespace_info__ as __array_namespace_info__
from ._linear_algebra import *
from ._manipulation import *
from ._searching import *
from ._sets import *
from ._sorting import *
from ._statistical import *
from ._utility import *

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import fft as fft, linalg as linalg

__array_api_version__ = "2025.12"

_SECTIONS = (
    _constants,
    _creation,
    _data_types,
    _elementwise,
    _indexing,
    _linear_algebra,
    _manipulation,
    _searching,
    _sets,
    _sorting,
    _statistical,
    _utility,
)

__all__ = ["__array_api_version__", "__array_namespace_info__", "fft", "linalg"]
__all__ += [name for section in _SECTIONS for name in section.__all__]
__all__ += BOOLEAN + SIGNED + UNSIGNED + REAL + COMPLEX


def __getattr__(name: str) -> Any:
    """The extensions, which are imported on first access."""
    if name in ("fft", "linalg"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
