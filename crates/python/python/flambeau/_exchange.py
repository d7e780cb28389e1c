"""The protocols by which other libraries read a tensor, and the function that converts their arrays."""

from __future__ import annotations

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._flambeau import Tensor, device, dtype


__all__ = ["asarray"]


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """The tensor as a NumPy array, without a copy unless one is requested or needed."""
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError(f"Unable to avoid copy: the tensor has {array.dtype} elements and {dtype} are requested")
        return array.astype(dtype)
    return array.copy() if copy else array


def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """What NumPy computed of a tensor is a tensor again."""
    return _flambeau.as_tensor(array)


# The editions of the Array API standard, of which a later one has all that an earlier one has.
EDITIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """The functions of the Array API standard, `flambeau.array_api`."""
    if api_version is not None and api_version not in EDITIONS:
        raise ValueError(f"__array_namespace__: expected api_version to be one of {', '.join(EDITIONS)} but got {api_version!r}")
    from flambeau import array_api

    return array_api


def to_device(self: Tensor, device: device | str, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device; `stream` must be None, since a copy needs no stream of the caller's."""
    if stream is not None:
        raise ValueError(f"to_device: expected stream to be None but got {stream!r}")
    return self.to(device)


def __imatmul__(self: Tensor, other: Tensor) -> Tensor:
    """The product of matrices, stored in the tensor."""
    return self.copy_(self @ other)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: device | str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of an array, a buffer, an object with `__dlpack__`, a number or nested lists; without a copy where possible.

    `copy=True` always copies, `copy=False` never does and raises ValueError where a copy would be needed.
    """
    tensor, shares = _taken(obj, dtype)
    if isinstance(tensor, _flambeau.Tensor):
        converted = tensor.to(device=device, dtype=dtype)
    else:
        converted = _flambeau.as_tensor(tensor, dtype=dtype, device=device)
    copied = converted is not tensor or not shares
    if copied and copy is False:
        raise ValueError("can't alias or copy tensor: copy=False and the data cannot be shared as it is")
    if copy and not copied:
        converted = converted.clone()
    if requires_grad and not converted.requires_grad:
        return converted.detach().requires_grad_()
    return converted if requires_grad or not converted.requires_grad else converted.detach()


def _taken(obj: Any, dtype: dtype | None) -> tuple[Any, bool]:
    """A tensor that shares the elements of `obj`, and whether it does; `obj` itself where there is nothing to share."""
    if isinstance(obj, _flambeau.Tensor):
        return obj, True
    if isinstance(obj, (int, float, list, tuple)):
        return obj, False
    if hasattr(obj, "__array_struct__"):
        shared = _flambeau.as_tensor(obj)
        return shared, hasattr(obj, "base")
    if hasattr(obj, "__dlpack__"):
        return _flambeau.from_dlpack(obj), True
    try:
        memoryview(obj)
    except TypeError:
        return obj, False
    return _flambeau.frombuffer(obj, dtype=dtype or _flambeau.get_default_dtype()), True


def install(tensor: Any) -> None:
    """Puts the methods on the class."""
    for method in (__array__, __array_wrap__, __array_namespace__, __imatmul__, to_device):
        setattr(tensor, method.__name__, method)
