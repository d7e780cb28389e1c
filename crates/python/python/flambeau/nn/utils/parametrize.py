"""Tensors of a module as functions of others: reading the attribute computes it, assigning to it inverts the function."""

from __future__ import annotations

from contextlib import contextmanager

import flambeau
from flambeau import Tensor
from flambeau.nn.module import Module
from flambeau.nn.modules.container import ModuleDict, ModuleList
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache: dict[tuple[int, str], Tensor] = {}
_cache_depth = [0]


@contextmanager
def cached() -> Iterator[None]:
    """Inside it, each tensor is computed once, when it is first read."""
    _cache_depth[0] += 1
    try:
        yield
    finally:
        _cache_depth[0] -= 1
        if _cache_depth[0] == 0:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The functions of one tensor, the innermost first, and the tensor or tensors that they begin with."""

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with flambeau.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._register("original", original, new)
        else:
            for index, part in enumerate(new):
                self._register(f"original{index}", original, part)

    def _register(self, name: str, original: Tensor, value: Tensor) -> None:
        if isinstance(original, Parameter):
            same = value is original
            self.register_parameter(name, original if same else Parameter(value, original.requires_grad))
        else:
            self.register_buffer(name, value)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{index}") for index in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the tensors of which the functions make `value`."""
        with flambeau.no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            for original, part in zip(self._originals(), [new] if self.is_tensor else new, strict=True):
                if original.shape == part.shape:
                    original.copy_(part)
                else:
                    original.data = part

    def forward(self) -> Tensor:
        """The tensor."""
        first, *others = list(self)
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _property(name: str) -> property:
    """The attribute that is computed."""

    def get(self: Any) -> Tensor:
        functions = self.parametrizations[name]
        if _cache_depth[0] == 0:
            return functions()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = functions()
        return _cache[key]

    def set_(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_)


def _inject_class(module: Any) -> None:
    """Gives the module a class of its own, which has the attributes that are computed."""
    cls: Any = type(module)

    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See: "
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        )

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        import copy

        made = cls.__new__(cls)
        memo[id(self)] = made
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        made.__class__ = type(self)
        return made

    attributes: dict[str, Any] = {"__getstate__": getstate, "__deepcopy__": deepcopy, "__module__": cls.__module__}
    module.__class__ = type(cls)(f"Parametrized{cls.__name__}", (cls,), attributes)


def register_parametrization(module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Any:
    """Makes a parameter or buffer a function of what it was; a second function is applied to the first one's result."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        functions = module.parametrizations[tensor_name]
        if not unsafe:
            _check_shapes(module, tensor_name, parametrization)
        value = getattr(module, tensor_name).detach()
        functions.append(parametrization)
        if hasattr(parametrization, "right_inverse"):
            functions.right_inverse(value)
        functions.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        functions = ParametrizationList([parametrization], original, unsafe)
        if not unsafe and functions().shape != original.shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
                f"original shape: {original.shape}, parametrized shape: {functions().shape}"
            )
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = functions
        setattr(type(module), tensor_name, _property(tensor_name))
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def _check_shapes(module: Any, name: str, parametrization: Any) -> None:
    value = getattr(module, name)
    made = parametrization(value)
    if made.shape != value.shape or made.dtype != value.dtype:
        raise ValueError(
            "Registering a parametrization may not change the shape or the dtype of the tensor, unless the `unsafe` flag is enabled.\n"
            f"module.{name}.shape: {value.shape}\nparametrization(module.{name}).shape: {made.shape}"
        )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module is computed; whether this one is, if it is named."""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Makes the attribute a plain tensor again: the computed one, or the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    functions = module.parametrizations[tensor_name]
    originals = functions._originals()
    is_parameter = isinstance(originals[0], Parameter)
    if leave_parametrized:
        with flambeau.no_grad():
            value = getattr(module, tensor_name).detach().clone()
        requires_grad = any(original.requires_grad for original in originals)
        kept: Tensor = Parameter(value, requires_grad) if is_parameter else value
    elif functions.is_tensor:
        kept = originals[0]
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors.")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    if is_parameter:
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of the module before it was given one of its own."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Registers the functions of one module's tensors with another, and copies the tensors."""
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for function in from_module.parametrizations[name]:
            register_parametrization(to_module, name, function, unsafe=from_module.parametrizations[name].unsafe)
        pairs = zip(from_module.parametrizations[name]._originals(), to_module.parametrizations[name]._originals())
        with flambeau.no_grad():
            for source, target in pairs:
                target.copy_(source)
    return to_module
