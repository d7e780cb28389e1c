"""Derivatives of operators: the kernel for `Autograd` of `backward` and `setup_context`."""

from __future__ import annotations

import flambeau
from flambeau import Tensor, _flambeau
from flambeau.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Call:
    """One call: how its arguments and results are put together, and what is not passed to `apply`."""

    def __init__(self, kwargs: dict[str, Any], spec: Any) -> None:
        self.kwargs, self.spec, self.returned = kwargs, spec, None


def _flat(values: Any) -> tuple[list[Any], Any]:
    """The items of lists among the values, and how to put them together again."""
    items: list[Any] = []
    shapes: list[int | None] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            items.extend(value)
            shapes.append(len(value))
        else:
            items.append(value)
            shapes.append(None)
    return items, shapes


def _nested(items: Any, shapes: Any) -> list[Any]:
    items = iter(items)
    return [next(items) if length is None else [next(items) for _ in range(length)] for length in shapes]


def _requires_grad(values: Any) -> bool:
    return any(isinstance(value, Tensor) and value.requires_grad for value in values)


def kernel(overload: Any, backward: Callable[..., Any], setup_context: Callable[..., Any] | None) -> Callable[..., Any]:
    """The kernel that records a call of the operator."""
    by_name = any(argument.kwarg_only for argument in overload._schema.arguments)

    def setup(ctx: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if setup_context is None:
            return
        if by_name:
            setup_context(ctx=ctx, inputs=args, keyword_only_inputs=kwargs, output=output)
        else:
            setup_context(ctx, args, output)

    class Recorded(Function):
        @staticmethod
        def forward(ctx: Any, call: Any, *flat: Any) -> Any:
            args = tuple(_nested(flat, call.spec))
            output = _flambeau._call_below_autograd(overload._op, args, call.kwargs)
            if ctx is not None:
                needs = _nested(ctx.needs_input_grad[1:], call.spec)
                ctx._call, ctx.needs_input_grad = call, tuple(needs)
                setup(ctx, args, call.kwargs, output)
            outputs, call.returned = _flat(output if isinstance(output, tuple) else (output,))
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            call = ctx._call
            ctx.needs_input_grad = tuple(_nested(ctx.needs_input_grad[1:], call.spec))
            gradients = backward(ctx, *_nested(grads, call.returned))
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            if len(gradients) != len(call.spec):
                raise RuntimeError(
                    f"{overload}: expected the backward to return a gradient or None for each of {len(call.spec)} arguments "
                    f"but got {len(gradients)}"
                )
            flat: list[Any] = []
            for gradient, length in zip(gradients, call.spec):
                flat.extend([gradient] if length is None else [None] * length if gradient is None else gradient)
            return (None, *flat)

    Recorded.__name__ = Recorded.__qualname__ = f"Generated{overload}".replace(".", "_")

    def record(*args: Any, **kwargs: Any) -> Any:
        flat, spec = _flat(args)
        if not (flambeau.is_grad_enabled() and _requires_grad(flat)):
            return _flambeau._call_below_autograd(overload._op, args, kwargs)
        # Forward mode comes before, and sets the tangents of the results. What is saved here keeps its own, for the backward pass.
        call = _Call(kwargs, spec)
        outputs = Recorded.apply(call, *flat)
        returned = _nested(outputs, call.returned)
        return returned[0] if len(returned) == 1 else tuple(returned)

    return record


def functional(overload: Any) -> bool:
    """Whether an operator writes and shares nothing, as one with a derivative of its own must."""
    schema = overload._schema
    return not schema.is_mutable and all(result.alias_info is None for result in schema.returns)


def refuse_keyword_only_tensors(overload: Any) -> None:
    """An error for an operator that takes tensors by keyword only: `backward` returns gradients of positional arguments."""
    if any(argument.kwarg_only and argument.type.startswith("Tensor") for argument in overload._schema.arguments):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args. In the original definition of the op, please make your tensors not kwarg-only. "
            f"Got: {overload._schema}"
        )


def refuse_unless_functional(overload: Any) -> None:
    """An error for an operator that writes an argument."""
    if not functional(overload):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {overload} with schema {overload._schema}. Please create a "
            "functional operator and register an autograd formula for that."
        )
