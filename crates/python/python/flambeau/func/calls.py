"""What the transforms have in common: arguments to differentiate by, and outputs that may have something beside them."""

from __future__ import annotations

from .. import _flambeau
from ..autograd import forward_ad
from ..autograd.functional import _variables
from .trees import flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .trees import Build

    Function = Callable[..., Any]
    ArgNums = int | tuple[int, ...]


Tensor = _flambeau.Tensor


class Chosen:
    """The arguments that a function is differentiated by."""

    def __init__(self, args: tuple[Any, ...], argnums: ArgNums) -> None:
        self._args = args
        self._argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self._single = isinstance(argnums, int)
        self._is_enabled = _flambeau.is_grad_enabled()
        for argnum in self._argnums:
            if not -len(args) <= argnum < len(args):
                raise RuntimeError(f"Got argnum={argnum}, but only {len(args)} positional inputs")
        if len({argnum % len(args) for argnum in self._argnums}) < len(self._argnums):
            raise RuntimeError(f"argnums elements must be unique, but got {self._argnums}")
        chosen = tuple(args[argnum] for argnum in self._argnums)
        self.leaves, self._build = flatten(chosen, "an argument to differentiate by")

    def recorded(self, outputs: Iterable[Tensor], variables: Iterable[Tensor]) -> bool:
        """Whether gradients of the outputs by the variables are part of a graph: those arguments are, or the outputs were computed from
        another leaf too, such as the argument of a transform around this one."""
        if any(x.requires_grad for x in self.leaves):
            return True
        return self._is_enabled and not accumulators(outputs) <= accumulators(variables)

    def variables(self) -> tuple[Tensor, ...]:
        """The leaves, to be differentiated by."""
        return _variables(tuple(self.leaves), True)

    def replaced(self, leaves: Iterable[Tensor]) -> list[Any]:
        """All arguments, with other tensors in these."""
        given = list(self._args)
        for argnum, value in zip(self._argnums, self._build(leaves), strict=True):
            given[argnum] = value
        return given

    def like(self, leaves: Iterable[Tensor]) -> Any:
        """Tensors in the order of the leaves, as the arguments hold them."""
        values = self._build(leaves)
        return values[0] if self._single else values


def accumulators(tensors: Iterable[Tensor]) -> set[Any]:
    """The nodes at which the graphs of some tensors end, one for each leaf that requires a gradient."""
    left = [x.view_as(x).grad_fn for x in tensors if x.requires_grad]
    seen = set()
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left.extend(following for following, _ in node.next_functions)
    return {node for node in seen if node.name() == "AccumulateGrad"}


def called(func: Function, args: Iterable[Any], kwargs: dict[str, Any], has_aux: bool) -> tuple[Any, Any]:
    """The outputs of a function, and what comes beside them."""
    outputs = func(*args, **kwargs)
    if not has_aux:
        return outputs, None
    if not isinstance(outputs, tuple) or len(outputs) != 2:
        raise RuntimeError("with has_aux=True, expected the function to return a tuple of outputs and something more")
    return outputs


def with_tangents(outputs: Any, strict: bool) -> tuple[list[Tensor], list[Tensor], Build]:
    """The tensors among the outputs, their tangents, and how they stand in the outputs."""
    leaves, build = flatten(outputs, "outputs of the function")
    pairs = [forward_ad.unpack_dual(output) for output in leaves]
    if strict and any(tangent is None for _, tangent in pairs):
        raise RuntimeError("jvp: an output does not depend on the primals, which is not allowed in strict mode")
    slopes = [_flambeau.zeros_like(primal) if tangent is None else tangent for primal, tangent in pairs]
    return [primal for primal, _ in pairs], slopes, build


def plain(value: Tensor) -> Tensor:
    """The value without the history that was made here, but with its tangent."""
    primal, tangent = forward_ad.unpack_dual(value)
    return primal.detach() if tangent is None else forward_ad.make_dual(primal.detach(), tangent)
