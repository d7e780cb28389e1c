"""Gradients held against finite differences, in 64 bits."""

from __future__ import annotations

from .. import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Tensor = _flambeau.Tensor


class GradcheckError(RuntimeError):
    """Two gradients that should agree do not."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_batched_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
) -> bool:
    """Whether the gradients that `func` records at `inputs` are those that differences of its values tell.

    With `check_forward_ad` the tangents of forward mode are compared too, and without `check_backward_ad` they alone. With
    `check_batched_grad` a backward pass with a batch of gradients, as `vmap` runs it, has to give what one for each gives. Every
    element of every output and input is looked at, which PyTorch calls the slow mode. Inputs that require grad are of 64
    bits; others, and what is no tensor, are handed on.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    indices = [index for index, value in enumerate(given) if isinstance(value, Tensor)]
    tensor_inputs = [given[index] for index in indices]
    problem = _problem_of_inputs(tensor_inputs)
    if problem is not None:
        raise ValueError(problem)

    def call(*tensors: Tensor) -> list[Tensor]:
        arguments = list(given)
        for index, tensor in zip(indices, tensors, strict=True):
            arguments[index] = tensor
        return _differentiable(func(*arguments))

    modes = [check_forward_ad, check_backward_ad]
    found = _flambeau._gradcheck(call, tensor_inputs, [eps, atol, rtol, nondet_tol], check_undefined_grad, modes)
    if found is None and check_batched_grad and check_backward_ad:
        found = _problem_of_batch(call(*tensor_inputs), [x for x in tensor_inputs if x.requires_grad], atol, rtol)
    if found is not None and raise_exception:
        raise GradcheckError(found)
    return found is None


def _problem_of_inputs(tensors: list[Tensor]) -> str | None:
    leaves = [tensor for tensor in tensors if tensor.requires_grad]
    if not leaves:
        return "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
    if any(tensor.dtype not in (_flambeau.float64, _flambeau.complex128) for tensor in leaves):
        return "gradcheck expects inputs that require grad to be of float64 or complex128: differences of others are too coarse"
    return None


def _problem_of_batch(outputs: list[Tensor], leaves: list[Tensor], atol: float, rtol: float) -> str | None:
    """What is wrong with a backward pass with a batch of gradients, in words."""
    from ._jacobians import grads_of_batch

    for index, output in enumerate(output for output in outputs if output.requires_grad):
        seeds = _flambeau.randn((2, *output.shape), dtype=output.dtype, device=output.device)
        try:
            found = grads_of_batch(output, leaves, seeds, (True, False, True), True)
        except (RuntimeError, TypeError) as error:
            return f"a backward pass with a batch of gradients of output {index} is an error: {error}"
        for at, seed in enumerate(seeds):
            expected = _flambeau._grad(output, leaves, seed, True, False, True)
            for number, (own, other) in enumerate(zip(found, expected, strict=True)):
                if other is not None and not _flambeau.allclose(own[at], other, rtol, atol, equal_nan=True):
                    return f"a batch of gradients of output {index} gives {own[at]} for input {number}, and one at a time {other}"
    return None


def _differentiable(outputs: Any) -> list[Tensor]:
    """The outputs that can have a gradient."""
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    tensors = [output for output in outputs if isinstance(output, Tensor)]
    found = [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
    if not found:
        raise ValueError("gradcheck expects a function that returns at least one floating point tensor")
    return found


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
) -> bool:
    """Whether the gradients of gradients are right too, at `inputs` and at gradients of the outputs, random unless given.

    With `check_fwd_over_rev` the tangents of gradients are compared too, and without `check_rev_over_rev` they alone.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    weights = _weights(func, given, grad_outputs)

    def gradients(*arguments: Any) -> list[Tensor]:
        first, seeds = arguments[: len(given)], arguments[len(given) :]
        values = [x if not isinstance(x, Tensor) or not x.requires_grad else x.view_as(x) for x in first]
        leaves = [x for x in values if isinstance(x, Tensor) and x.requires_grad]
        outputs = [output for output in _differentiable(func(*values)) if output.requires_grad]
        found = _flambeau._grad(outputs, leaves, list(seeds), True, True, True)
        return [grad for grad in found if grad is not None]

    return gradcheck(
        gradients,
        (*given, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )


def _weights(func: Callable[..., Any], given: tuple[Any, ...], grad_outputs: Any) -> list[Tensor]:
    if grad_outputs is not None:
        return [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    outputs = [output for output in _differentiable(func(*given)) if output.requires_grad]
    return [_flambeau.randn_like(output.detach()).requires_grad_() for output in outputs]
