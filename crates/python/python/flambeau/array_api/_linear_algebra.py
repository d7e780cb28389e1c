"""Products of the standard's main namespace."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

from ._arguments import operands
from ._unsigned import as_int64_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices; a vector is a row on the left and a column on the right."""
    return as_int64_bits(flambeau.matmul)(*operands(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Each matrix with rows and columns exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least two dimensions but got {x.ndim}")
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The products summed over the last `axes` axes of `x1` and the first of `x2`, or over two lists of axes."""
    left, right = operands(x1, x2)
    return as_int64_bits(flambeau.tensordot)(left, right, axes)


def _row_products(left: Tensor, right: Tensor) -> Tensor:
    return flambeau.sum(left.conj() * right, -1, dtype=left.dtype)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The products summed over an axis, counted from the last one; the elements of `x1` are conjugated."""
    count = min(x1.ndim, x2.ndim)
    if not -count <= axis <= -1:
        raise ValueError(f"vecdot: expected axis in [{-count}, -1] but got {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: expected equal sizes along axis {axis} but got {x1.shape[axis]} and {x2.shape[axis]}")
    left, right = (part.movedim(axis, -1) for part in operands(x1, x2))
    return as_int64_bits(_row_products)(left, right)
