"""Linear algebra under the names of `torch.linalg`."""

from __future__ import annotations

from .._flambeau import _linalg, diagonal as _diagonal
from .._flambeau import matmul as matmul

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._flambeau import Tensor

cross = _linalg.linalg_cross
matrix_norm = _linalg.linalg_matrix_norm
matrix_power = _linalg.linalg_matrix_power
multi_dot = _linalg.linalg_multi_dot
norm = _linalg.linalg_norm
vander = _linalg.linalg_vander
vecdot = _linalg.linalg_vecdot
vector_norm = _linalg.linalg_vector_norm


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the last two dimensions: `flambeau.diagonal` with other defaults."""
    return _diagonal(A, offset, dim1, dim2)


__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "vander",
    "vecdot",
    "vector_norm",
]
