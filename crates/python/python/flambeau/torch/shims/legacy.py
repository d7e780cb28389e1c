"""Tensors of a type as classes: `FloatTensor`, `LongTensor` and the others that PyTorch had before there were dtypes."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._methods import TYPE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _TypedTensor(type):
    """A class of tensors of one dtype: `isinstance` compares the dtype, a call makes a tensor."""

    dtype: flambeau.dtype
    is_cuda = False
    is_sparse = False

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype == cls.dtype

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        """A tensor of given sizes, which is not initialised, or with given elements."""
        if all(type(arg) is int for arg in args):
            return flambeau.empty(args or (0,), dtype=cls.dtype, device=device)
        if isinstance(args[0], flambeau.Size):
            return flambeau.empty(args[0], dtype=cls.dtype, device=device)
        if isinstance(args[0], Tensor):
            return args[0].to(cls.dtype)
        return flambeau.tensor(args[0], dtype=cls.dtype, device=device)


def typed(name: str) -> Any:
    """The class of that name."""
    return _TypedTensor(name, (), {"__module__": "torch", "dtype": getattr(flambeau, TYPE_NAMES[name])})


class _TypedStorage(type):
    """A class of storages of one dtype; there are untyped ones only."""

    def __instancecheck__(cls, value: Any) -> bool:
        return False


def storage(name: str) -> Any:
    """The class of storages of that name."""
    attributes = {"__module__": "torch", "dtype": getattr(flambeau, TYPE_NAMES[name.replace("Storage", "Tensor")])}
    return _TypedStorage(name, (), attributes)


TENSORS = tuple(TYPE_NAMES)
STORAGES = tuple(name.replace("Tensor", "Storage") for name in TYPE_NAMES)
