"""Parameters of which some elements are masked out, by their size or at random."""

from __future__ import annotations

from abc import ABC, abstractmethod

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A method of masking, which is a hook: before each call the parameter is its original times the mask."""

    PRUNING_TYPE: str = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of a tensor, of which some elements may be masked already."""

    def apply_mask(self, module: Any) -> Tensor:
        """The parameter with its mask."""
        mask: Tensor = getattr(module, self._tensor_name + "_mask")
        original: Tensor = getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any) -> Any:
        """Masks a parameter, after what methods before have masked."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        old = _hook(module, name)
        if old is not None:
            key, hook = old
            del module._forward_pre_hooks[key]
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            default = getattr(module, name + "_mask").clone()
            method = container
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name}")
        if old is None:
            param = module._parameters.pop(name)
            module.register_parameter(name + "_orig", param)
            default = flambeau.ones_like(param)
        mask = method.compute_mask(scores.detach(), default)
        if old is None:
            module.register_buffer(name + "_mask", mask)
        else:
            setattr(module, name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """The tensor with a mask, without a module."""
        default = flambeau.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, default)

    def remove(self, module: Any) -> None:
        """Makes the masked values the parameter's own."""
        weight = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters.pop(self._tensor_name + "_orig")
        with flambeau.no_grad():
            original.copy_(weight)
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Methods one after the other, each for what is left by those before."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and not isinstance(args[0], BasePruningMethod) else args
        for method in methods:
            self._tensor_name = getattr(self, "_tensor_name", method._tensor_name)
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Adds a method."""
        if method is None or not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer. "
                f"Found '{method._tensor_name}'"
            )
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, on what is left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            left: Any = mask == 1
        elif kind == "structured":
            dim: int = method.dim % t.dim()  # type: ignore[attr-defined]
            others = [d for d in range(t.dim()) if d != dim]
            keeps = mask.sum(others) != 0 if others else mask != 0
            left = [slice(None)] * t.dim()
            left[dim] = keeps
            left = tuple(left)
        elif kind == "global":
            left = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        made = mask.clone()
        made[left] = method.compute_mask(t[left], mask[left]).to(mask.dtype)
        return made


class Identity(BasePruningMethod):
    """Masks nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Amount(BasePruningMethod):
    """Masks a number of elements or slices, or a share of them."""

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount


class RandomUnstructured(_Amount):
    """Masks random elements."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, flambeau.rand_like(t), _count(self.amount, t.numel()))


class L1Unstructured(_Amount):
    """Masks the elements of the smallest magnitude."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without(default_mask, t.abs(), _count(self.amount, t.numel()))


class _Structured(_Amount):
    """Masks slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        lowest = self._scores(t).topk(count, largest=False).indices
        return default_mask.index_fill(self.dim, lowest, 0)


class RandomStructured(_Structured):
    """Masks random slices."""

    def _scores(self, t: Tensor) -> Tensor:
        return flambeau.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """Masks the slices with the smallest norms."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        dim = self.dim % t.dim()
        others = [d for d in range(t.dim()) if d != dim]
        return flambeau.linalg.vector_norm(t, 2 if self.n == "fro" else self.n, others) if others else t.abs()


class CustomFromMask(BasePruningMethod):
    """Masks what a given mask does."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(default_mask.dtype)


def _check_amount(amount: Any) -> None:
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: float, size: int) -> int:
    """How many are masked."""
    if isinstance(amount, int):
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return amount
    return round(amount * size)


def _without(mask: Tensor, scores: Tensor, count: int) -> Tensor:
    """The mask without the elements of the lowest scores."""
    made = mask.clone()
    if count:
        lowest = scores.reshape(-1).topk(count, largest=False).indices
        made = made.reshape(-1).index_fill(0, lowest, 0).reshape(mask.shape)
    return made


def _hook(module: Any, name: str) -> tuple[int, BasePruningMethod] | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def identity(module: Any, name: str) -> Any:
    """Masks nothing of a parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Masks random elements of a parameter."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Tensor | None = None) -> Any:
    """Masks the elements of the smallest magnitude."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Masks random slices of a parameter."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None) -> Any:
    """Masks the slices with the smallest norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Masks what the mask does."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Masks elements of several parameters, as if they were one."""
    parameters = list(parameters)
    scores = importance_scores or {}
    found = [scores.get((module, name), getattr(module, name)).detach() for module, name in parameters]
    masks = [getattr(module, name + "_mask", flambeau.ones_like(getattr(module, name))) for module, name in parameters]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp_name"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError('Only "unstructured" PRUNING_TYPE supported for the `pruning_method`.')
    container = PruningContainer(method)
    whole = container.compute_mask(flambeau.cat([x.reshape(-1) for x in found]), flambeau.cat([m.reshape(-1) for m in masks]))
    for (module, name), part in zip(parameters, whole.split([x.numel() for x in found])):
        custom_from_mask(module, name, part.view_as(getattr(module, name)))


def remove(module: Any, name: str) -> Any:
    """Makes the masked values the parameter's own, without a mask."""
    found = _hook(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module or its parts is masked."""
    return any(isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values())
