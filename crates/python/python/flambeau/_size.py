"""Sizes: a tuple that prints as PyTorch's and counts its elements."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex


class Size(tuple[int, ...]):
    """The sizes of a tensor."""

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of these sizes has."""
        product = 1
        for size in self:
            product *= size
        return product

    def __repr__(self) -> str:
        return f"flambeau.Size([{', '.join(map(str, self))}])"

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple.__add__(other, self))

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found
