"""A size for each dimension, from one number or several."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Sizes = int | Sequence[int]


def for_each(size: Sizes, count: int) -> tuple[int, ...]:
    """`count` numbers: the same one, or those that were given."""
    return tuple(size) if hasattr(size, "__iter__") else (size,) * count
