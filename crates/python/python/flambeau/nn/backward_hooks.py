"""Backward hooks of modules: called with the gradients of a module's outputs and with those of its inputs."""

from __future__ import annotations

import flambeau
from flambeau.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from flambeau import Tensor

    Gradients = tuple[Tensor | None, ...]


class _GradientHook(Function):
    """The identity; in the backward pass one function changes the gradients of all tensors at once."""

    @staticmethod
    def forward(ctx: Any, change: Callable[[Gradients], Gradients], *tensors: Tensor) -> Any:
        ctx.change = change
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.change(grads))


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], forward: Callable[..., Any]) -> Any:
    """A call of a module that has backward hooks; tensors among positional arguments and in a tuple of outputs count."""
    hooked = _HookedCall(module, len(args))
    args = hooked.attach(args, hooked.on_input_grads)
    result = forward(*args, **kwargs)
    several = isinstance(result, tuple)
    outputs = hooked.attach(result if several else (result,), hooked.on_output_grads)
    return outputs if several else outputs[0]


class _HookedCall:
    """One call of a module with hooks: holds the gradients of its outputs until those of its inputs are known."""

    def __init__(self, module: Any, inputs: int) -> None:
        self.module, self.inputs = module, inputs
        self.outputs: Gradients = ()
        self.has_input_hook = False

    def attach(self, values: tuple[Any, ...], change: Callable[[list[int], int, Gradients], Gradients]) -> tuple[Any, ...]:
        """Attaches `change` to the gradients of the tensors among `values` that require one."""
        indices = [index for index, value in enumerate(values) if _tracked(value)]
        if not indices or not flambeau.is_grad_enabled():
            return values
        count = len(values)
        if change == self.on_input_grads:
            self.has_input_hook = True
        made = _GradientHook.apply(lambda grads: change(indices, count, grads), *(values[index] for index in indices))
        passed = dict(zip(indices, made))
        return tuple(passed.get(index, value) for index, value in enumerate(values))

    def on_output_grads(self, indices: list[int], count: int, grads: Gradients) -> Gradients:
        """Called with the gradients of the outputs."""
        self.outputs = _scatter(indices, count, grads)
        for hook in list(self.module._backward_pre_hooks.values()):
            self.outputs = _changed(hook(self.module, self.outputs), self.outputs, "grad_output")
        if not self.has_input_hook:
            self._run((None,) * self.inputs)
        return tuple(self.outputs[index] for index in indices)

    def on_input_grads(self, indices: list[int], count: int, grads: Gradients) -> Gradients:
        """Called with the gradients of the inputs."""
        inputs = self._run(_scatter(indices, count, grads))
        return tuple(inputs[index] for index in indices)

    def _run(self, inputs: Gradients) -> Gradients:
        for hook in list(self.module._backward_hooks.values()):
            inputs = _changed(hook(self.module, inputs, self.outputs), inputs, "grad_input")
        return inputs


def _tracked(value: Any) -> bool:
    return isinstance(value, flambeau.Tensor) and value.requires_grad


def _scatter(indices: list[int], count: int, grads: Gradients) -> Gradients:
    """One gradient for each value; None for those that have none."""
    known = dict(zip(indices, grads))
    return tuple(known.get(index) for index in range(count))


def _changed(given: Any, grads: Gradients, name: str) -> Gradients:
    """The gradients that a hook returned, or those it was called with."""
    if given is None:
        return grads
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(grads):
        raise RuntimeError(f"Backward hook returned an invalid number of {name}, got {len(given)}, but expected {len(grads)}")
    return given
