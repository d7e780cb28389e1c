"""Tensors that a module knows as its own: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations


import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Parameter(Tensor):
    """A tensor that becomes a parameter of the module it is assigned to.

    It shares its elements with `data`, and has no history of its own.
    """

    # Operators treat it as a plain tensor: their results are no parameters.
    __flambeau_function__ = None

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = flambeau.empty(0)
        return Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # `alias` is of the plain class, so that pickling does not recurse.
        return type(self), (self.detach(), self.requires_grad)


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module it is assigned to; `persistent` says whether `state_dict` has it."""

    persistent: bool
    __flambeau_function__ = None

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = flambeau.empty(0)
        made = Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        made.persistent = persistent
        return made
