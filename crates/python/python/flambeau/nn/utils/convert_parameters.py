"""All parameters as one vector, and back."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from flambeau import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other."""
    return flambeau.cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copies into parameters the elements that `parameters_to_vector` would take from them."""
    if not isinstance(vec, flambeau.Tensor):
        raise TypeError(f"expected flambeau.Tensor, but got: {type(vec).__name__}")
    offset = 0
    with flambeau.no_grad():
        for param in parameters:
            param.copy_(vec[offset : offset + param.numel()].view_as(param))
            offset += param.numel()
