"""Results with names, as `torch.return_types` has them: `x.max(0).values`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The package whose name is printed; `flambeau.torch` sets PyTorch's.
PACKAGE = "flambeau"
_made: dict[tuple[str, tuple[str, ...]], type] = {}


def _repr(self: Any) -> str:
    """A line for each result, as PyTorch prints them."""
    results = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
    return f"{PACKAGE}.return_types.{type(self).__name__}(\n{results})"


def make(name: str, fields: tuple[str, ...]) -> type:
    """The class of a tuple with these fields."""
    from collections import namedtuple

    if (name, fields) not in _made:
        made = namedtuple(name, fields, module="flambeau.return_types")  # type: ignore[misc]
        setattr(made, "__repr__", _repr)
        _made[name, fields] = made
    return _made[name, fields]
