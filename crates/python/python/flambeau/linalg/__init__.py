"""Linear algebra under the names of `torch.linalg`."""

from __future__ import annotations

from .._flambeau import LinAlgError as LinAlgError, _linalg, diagonal as _diagonal
from .._flambeau import matmul as matmul

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._flambeau import Tensor

cholesky = _linalg.linalg_cholesky
cholesky_ex = _linalg.linalg_cholesky_ex
cond = _linalg.linalg_cond
cross = _linalg.linalg_cross
det = _linalg.linalg_det
eig = _linalg.linalg_eig
eigh = _linalg.linalg_eigh
eigvals = _linalg.linalg_eigvals
eigvalsh = _linalg.linalg_eigvalsh
householder_product = _linalg.linalg_householder_product
inv = _linalg.linalg_inv
inv_ex = _linalg.linalg_inv_ex
ldl_factor = _linalg.linalg_ldl_factor
ldl_factor_ex = _linalg.linalg_ldl_factor_ex
ldl_solve = _linalg.linalg_ldl_solve
lstsq = _linalg.linalg_lstsq
lu = _linalg.linalg_lu
lu_factor = _linalg.linalg_lu_factor
lu_factor_ex = _linalg.linalg_lu_factor_ex
lu_solve = _linalg.linalg_lu_solve
matrix_exp = _linalg.linalg_matrix_exp
matrix_norm = _linalg.linalg_matrix_norm
matrix_power = _linalg.linalg_matrix_power
matrix_rank = _linalg.linalg_matrix_rank
matrix_sqrth = _linalg.linalg_matrix_sqrth
multi_dot = _linalg.linalg_multi_dot
norm = _linalg.linalg_norm
pinv = _linalg.linalg_pinv
polar = _linalg.linalg_polar
qr = _linalg.linalg_qr
slogdet = _linalg.linalg_slogdet
solve = _linalg.linalg_solve
solve_ex = _linalg.linalg_solve_ex
solve_triangular = _linalg.linalg_solve_triangular
svd = _linalg.linalg_svd
svdvals = _linalg.linalg_svdvals
tensorinv = _linalg.linalg_tensorinv
tensorsolve = _linalg.linalg_tensorsolve
vander = _linalg.linalg_vander
vecdot = _linalg.linalg_vecdot
vector_norm = _linalg.linalg_vector_norm


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the last two dimensions: `flambeau.diagonal` with other defaults."""
    return _diagonal(A, offset, dim1, dim2)


__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_sqrth",
    "multi_dot",
    "norm",
    "pinv",
    "polar",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
