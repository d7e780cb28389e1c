"""Hooks on the gradients that go through a module: those of its outputs on their way in, those of its inputs on their way out."""

from __future__ import annotations

import flambeau
from flambeau.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from flambeau import Tensor

    Gradients = tuple[Tensor | None, ...]


class _Gate(Function):
    """Hands tensors on; their gradients pass a function on the way back, all at once."""

    @staticmethod
    def forward(ctx: Any, change: Callable[[Gradients], Gradients], *tensors: Tensor) -> Any:
        ctx.change = change
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.change(grads))


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], forward: Callable[..., Any]) -> Any:
    """A call of a module that has backward hooks; tensors among positional arguments and in a tuple of outputs count."""
    passing = _Passing(module, len(args))
    args = passing.gate(args, passing.leave)
    result = forward(*args, **kwargs)
    several = isinstance(result, tuple)
    outputs = passing.gate(result if several else (result,), passing.enter)
    return outputs if several else outputs[0]


class _Passing:
    """One call: the gradients of its outputs are kept until those of its inputs are known."""

    def __init__(self, module: Any, inputs: int) -> None:
        self.module, self.inputs = module, inputs
        self.outputs: Gradients = ()
        self.gated = False

    def gate(self, values: tuple[Any, ...], change: Callable[[list[int], int, Gradients], Gradients]) -> tuple[Any, ...]:
        """Puts the tensors among values that have gradients through one gate."""
        places = [place for place, value in enumerate(values) if _tracked(value)]
        if not places or not flambeau.is_grad_enabled():
            return values
        count = len(values)
        if change == self.leave:
            self.gated = True
        made = _Gate.apply(lambda grads: change(places, count, grads), *(values[place] for place in places))
        passed = dict(zip(places, made))
        return tuple(passed.get(place, value) for place, value in enumerate(values))

    def enter(self, places: list[int], count: int, grads: Gradients) -> Gradients:
        """Gradients of the outputs have come."""
        self.outputs = _spread(places, count, grads)
        for hook in list(self.module._backward_pre_hooks.values()):
            self.outputs = _changed(hook(self.module, self.outputs), self.outputs, "grad_output")
        if not self.gated:
            self._run((None,) * self.inputs)
        return tuple(self.outputs[place] for place in places)

    def leave(self, places: list[int], count: int, grads: Gradients) -> Gradients:
        """Gradients of the inputs are known."""
        inputs = self._run(_spread(places, count, grads))
        return tuple(inputs[place] for place in places)

    def _run(self, inputs: Gradients) -> Gradients:
        for hook in list(self.module._backward_hooks.values()):
            inputs = _changed(hook(self.module, inputs, self.outputs), inputs, "grad_input")
        return inputs


def _tracked(value: Any) -> bool:
    return isinstance(value, flambeau.Tensor) and value.requires_grad


def _spread(places: list[int], count: int, grads: Gradients) -> Gradients:
    """One gradient for each value; None for those that have none."""
    known = dict(zip(places, grads))
    return tuple(known.get(place) for place in range(count))


def _changed(given: Any, grads: Gradients, name: str) -> Gradients:
    """What a hook has put in the place of gradients."""
    if given is None:
        return grads
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(grads):
        raise RuntimeError(f"Backward hook returned an invalid number of {name}, got {len(given)}, but expected {len(grads)}")
    return given
