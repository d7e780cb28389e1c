"""The extension `linalg` of the standard."""

from __future__ import annotations

import flambeau
import flambeau.linalg as _torch
from flambeau import Tensor

from ._arguments import operands
from ._linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from ._statistical import reduced, sum as _sum
from ._unsigned import as_int64_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import dtype as DType

    from ._arguments import Axes

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The lower triangular L of x = L Lᴴ, or the upper triangular U of x = Uᴴ U."""
    return _torch.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross products of the vectors of three elements along an axis."""
    count = min(x1.ndim, x2.ndim)
    if not -count <= axis <= max(-1, count - 1):
        raise ValueError(f"cross: expected axis in [{-count}, {count}) but got {axis}")
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: expected size 3 along axis {axis} but got {x1.shape[axis]} and {x2.shape[axis]}")
    left, right = flambeau.broadcast_tensors(*operands(x1, x2))
    return as_int64_bits(_torch.cross)(left, right, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinant of each matrix."""
    return _torch.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Diagonal `offset` of each matrix, which is above the main one if positive."""
    return _torch.diagonal(x, offset=offset)


def eig(x: Tensor, /) -> Any:
    """The eigenvalues and the eigenvectors of each matrix, as complex numbers."""
    return _torch.eig(x)


def eigh(x: Tensor, /) -> Any:
    """The eigenvalues and the eigenvectors of each Hermitian matrix."""
    return _torch.eigh(x)


def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues of each matrix, as complex numbers."""
    return _torch.eigvals(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of each Hermitian matrix."""
    return _torch.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverse of each matrix."""
    return _torch.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: int | float | str | None = "fro") -> Tensor:
    """The norm of each matrix."""
    return _torch.matrix_norm(x, "fro" if ord is None else ord, (-2, -1), keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Each matrix to a power; of its inverse if `n` is negative."""
    return _torch.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The number of singular values above `rtol` times the largest one."""
    return _torch.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of one vector with each of another."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer: expected vectors but got {x1.ndim} and {x2.ndim} dimensions")
    left, right = operands(x1, x2)
    return as_int64_bits(flambeau.mul)(left.unsqueeze(1), right)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudoinverse of each matrix; singular values up to `rtol` times the largest one count as 0."""
    return _torch.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """The factors Q, of orthonormal columns, and R, upper triangular, of each matrix."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: expected mode to be 'reduced' or 'complete' but got {mode!r}")
    return _torch.qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    """The sign and the logarithm of the absolute value of each matrix's determinant."""
    return _torch.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solutions X of x1 X = x2. `x2` is a vector only if it has one dimension."""
    left, right = operands(x1, x2)
    columns = right.unsqueeze(-1) if right.ndim == 1 else right
    # PyTorch takes an array of one dimension fewer for vectors.
    columns = columns.reshape((1,) * max(0, left.ndim - columns.ndim) + tuple(columns.shape))
    found = _torch.solve(left, columns)
    return found.squeeze(-1) if right.ndim == 1 else found


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """The singular values S of each matrix and the factors U and Vh of x = U diag(S) Vh."""
    return _torch.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of each matrix."""
    return _torch.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sum of diagonal `offset` of each matrix."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False, ord: int | float = 2) -> Tensor:
    """The norm of the elements, or of those along some axes."""
    return reduced("vector_norm", x, axis, keepdims, lambda x, axes, keepdims: _torch.vector_norm(x, ord, axes, keepdims))
