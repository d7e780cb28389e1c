"""Forward mode: tensors that carry a tangent, the derivative along one direction, through every operator."""

from __future__ import annotations

from collections import namedtuple
from contextlib import ContextDecorator

from .. import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple

    from .._flambeau import Tensor

    class UnpackedDualTensor(NamedTuple):
        primal: Tensor
        tangent: Tensor | None
else:
    UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])
    UnpackedDualTensor.__doc__ = "A tensor without its tangent, and the tangent or None."


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


def enter_dual_level() -> int:
    """Opens the level in which tensors can have tangents; there is one at a time on a thread, number 0."""
    _flambeau._enter_dual_level()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level; tensors lose the tangents they had in it."""
    if level not in (None, 0):
        raise RuntimeError(f"Trying to exit a forward AD level that was not the last one that was created: {level}")
    _flambeau._exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` that carries `tangent` until the level is closed."""
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not (given.is_floating_point() or given.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    return _flambeau._make_dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent, None where it has none or no level is open."""
    return UnpackedDualTensor(*_flambeau._unpack_dual(tensor))


class dual_level(ContextDecorator):
    """A level as a context manager: `with dual_level(): ...`."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()
