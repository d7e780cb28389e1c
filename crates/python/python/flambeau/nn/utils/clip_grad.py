"""Gradients that are too long, cut."""

from __future__ import annotations

import math

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from flambeau import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, flambeau.Tensor) else list(parameters)
    return [param.grad for param in parameters if param.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of all tensors, as if they were one vector."""
    tensors = [tensors] if isinstance(tensors, flambeau.Tensor) else list(tensors)
    if not tensors:
        return flambeau.tensor(0.0)
    # A tensor without elements has no maximum or minimum, and takes no part in that of the others.
    some = [tensor for tensor in tensors if tensor.numel() > 0 or not math.isinf(norm_type)]
    if not some:
        return flambeau.zeros((), dtype=tensors[0].dtype, device=tensors[0].device)
    norms = [flambeau.linalg.vector_norm(tensor, norm_type) for tensor in some]
    total = flambeau.linalg.vector_norm(flambeau.stack(norms), norm_type)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Shortens gradients, of which the norm is known, to `max_norm`; shorter ones stay."""
    with flambeau.no_grad():
        # 1e-6 is PyTorch's guard against division by 0.
        factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in _gradients(parameters):
            grad.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients, taken as one vector, to a norm of at most `max_norm`; returns their norm before.

    `foreach` is PyTorch's choice of implementation and changes nothing here.
    """
    parameters = [parameters] if isinstance(parameters, flambeau.Tensor) else list(parameters)
    with flambeau.no_grad():
        total = get_total_norm(_gradients(parameters), float(norm_type), error_if_nonfinite)
        clip_grads_with_norm_(parameters, float(max_norm), total)
    return total


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamps every element of the gradients to `[-clip_value, clip_value]`."""
    with flambeau.no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(-float(clip_value), float(clip_value))


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The older name of `clip_grad_norm_`."""
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
