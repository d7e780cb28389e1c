"""Tensors that a module knows as its own: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations


import flambeau
from flambeau import Tensor, _dispatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """A wrapper that was made a parameter is an instance too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of the module it is assigned to.

    It shares its elements with `data`, and has no history of its own.
    """

    # Operators treat it as a plain tensor: their results are no parameters.
    __flambeau_function__ = __torch_function__ = None

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = flambeau.empty(0)
        if _dispatch.has_dispatch(type(data)):
            # It stays an object of its class, which knows its elements.
            made = data.detach().requires_grad_(requires_grad)
            if type(made) is not type(data):
                raise RuntimeError(
                    f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an instance "
                    f"of the same type, but return type {type(made).__name__} was found instead."
                )
            made.__dict__["_is_param"] = True
            return made  # type: ignore[return-value]
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
    __flambeau_function__ = __torch_function__ = None

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = flambeau.empty(0)
        made = Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        made.persistent = persistent
        return made


def _materialize(tensor: Any, shape: Any, device: Any, dtype: Any, cls: type) -> None:
    """Gives a tensor without sizes its sizes, in place, and the class that is not lazy."""
    for name, value, own in (("device", device, tensor.device), ("dtype", dtype, tensor.dtype)):
        if value is not None and value != own:
            raise NotImplementedError(f"materialize: a tensor keeps its {name}, {own}; got {value}")
    requires_grad = tensor.requires_grad
    with flambeau.no_grad():
        tensor.requires_grad_(False).resize_(shape)
    tensor.__class__ = cls
    tensor.requires_grad_(requires_grad)


class UninitializedParameter(Parameter):
    """A parameter whose sizes are not known yet: `materialize` sets them."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return Tensor._make_subclass(cls, flambeau.empty(0, device=device, dtype=dtype), requires_grad)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives it sizes; the elements are not initialised."""
        _materialize(self, shape, device, dtype, self.cls_to_become)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(Tensor):
    """A buffer whose sizes are not known yet."""

    __flambeau_function__ = __torch_function__ = None
    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made = Tensor._make_subclass(cls, flambeau.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        return made

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives it sizes; the elements are not initialised."""
        _materialize(self, shape, device, dtype, Buffer)


UninitializedTensorMixin = (UninitializedParameter, UninitializedBuffer)


def is_lazy(param: object) -> bool:
    """Whether the sizes of a parameter or buffer are not known yet."""
    return isinstance(param, UninitializedTensorMixin)
