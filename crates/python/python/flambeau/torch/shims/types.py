"""torch.types: names for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, Union

import flambeau
from flambeau import Size as Size, Tensor as Tensor, UntypedStorage as Storage
from flambeau.torch.shims.symbols import SymBool as SymBool, SymFloat as SymFloat, SymInt as SymInt

Number = (builtins.int, builtins.float, builtins.bool)
FileLike = Union[str, os.PathLike[str], IO[bytes]]
Device = Union[flambeau.device, str, builtins.int, None]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrTensorsOrGradEdge = _TensorOrTensors
_size = Union[Size, list[builtins.int], tuple[builtins.int, ...]]
_symsize = _size
_int, _float, _bool, _dtype = builtins.int, builtins.float, builtins.bool, flambeau.dtype
_device, _layout, _qscheme = flambeau.device, flambeau.layout, Any
_complex = builtins.complex
IntLikeType, FloatLikeType, BoolLikeType = builtins.int, builtins.float, builtins.bool
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType = Union[SymInt, SymFloat, SymBool]
_dispatchkey = str

__all__ = ["Device", "FileLike", "Number", "Storage"]
