"""functorch.dim: dimensions as objects, which there are none of; packages name the classes for `isinstance`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Tensor:
    """A tensor with dimensions that are objects."""


class Dim:
    """A dimension that is an object."""


class DimList:
    """Several of them."""


def dims(n: int | None = None, sizes: Any = None) -> Any:
    """NotImplementedError: there are no such dimensions."""
    raise NotImplementedError("functorch.dim.dims: it is not implemented in Flambeau yet")
