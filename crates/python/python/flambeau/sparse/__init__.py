"""Sparse tensors: functions that only they have, conversions from and to SciPy, and checks of their indices."""

from __future__ import annotations

import flambeau
from flambeau import Tensor, _flambeau
from flambeau._sparse import sparse_compressed_tensor, sparse_coo_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "from_scipy",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
    "to_scipy",
]


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of matrices, at least one of which is sparse; `reduce`, one of "sum", "mean", "amax" and "amin", combines the terms."""
    if reduce is None:
        return flambeau.mm(mat1, mat2)
    return _flambeau._sparse_mm_reduce(mat1, mat2, reduce)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """`beta mat + alpha (mat1 @ mat2)`."""
    return flambeau.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """`beta input + alpha (mat1 @ mat2)` at the elements of the sparse tensor `input`."""
    return _flambeau._sparse_sampled_addmm(input, mat1, mat2, beta, alpha)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """The sum along dimensions: sparse, unless no sparse dimension is left."""
    if dim is None:
        return _flambeau._sparse_sum(input, None, dtype)
    return _flambeau._sparse_sum(input, [dim] if isinstance(dim, int) else list(dim), dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """`softmax` of the stored elements along a dimension: all others count as minus infinity."""
    return _flambeau._sparse_softmax(input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _flambeau._sparse_softmax(input, dim, dtype, True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of `diagonals` on the diagonals at `offsets`."""
    return _flambeau._sparse_spdiags(diagonals, offsets, list(shape), layout)


class check_sparse_tensor_invariants:
    """PyTorch's switch for checks of indices. Here constructors always check them, and kernels check what they read: nothing can be disabled."""

    def __init__(self, enable: bool = True) -> None:
        self.state = enable

    @staticmethod
    def is_enabled() -> bool:
        """True."""
        return True

    @staticmethod
    def enable() -> None:
        """Nothing is left to enable."""

    @staticmethod
    def disable() -> None:
        """Changes nothing."""

    def __enter__(self) -> check_sparse_tensor_invariants:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """The function itself: gradients of sparse tensors are those of their values, which `gradcheck` takes as they are."""
    return gradcheck


# The constructors of SciPy's formats by name, and the names of the parts.
_COMPRESSED = {"csr": flambeau.sparse_csr, "csc": flambeau.sparse_csc, "bsr": flambeau.sparse_bsr}


def from_scipy(array: Any, *, requires_grad: bool = False) -> Tensor:
    """A tensor of a sparse array or matrix of SciPy's, which shares its values and indices where their types allow that: of formats csr,
    csc, bsr and coo; others are converted to coo. Unsorted indices are sorted in a copy."""
    if array.format in _COMPRESSED:
        if not array.has_canonical_format:
            array = array.copy()
            array.sum_duplicates()
        pointers, plain, values = (flambeau.from_numpy(part) for part in (array.indptr, array.indices, array.data))
        layout = _COMPRESSED[array.format]
        return sparse_compressed_tensor(pointers, plain, values, array.shape, layout=layout, requires_grad=requires_grad)
    array = array.tocoo()
    coords = getattr(array, "coords", None) or (array.row, array.col)
    indices = flambeau.stack([flambeau.from_numpy(index).to(flambeau.int64) for index in coords])
    return sparse_coo_tensor(indices, flambeau.from_numpy(array.data), array.shape, requires_grad=requires_grad)


def to_scipy(tensor: Tensor) -> Any:
    """A sparse array of SciPy's in the format of the tensor, which shares its values and indices. It has neither batch nor dense dimensions."""
    import scipy.sparse  # type: ignore[import-untyped]

    if tensor.layout is flambeau.strided or not (tensor.is_sparse or _is_compressed(tensor)):
        raise TypeError(f"to_scipy: expected a sparse tensor but got one of layout {tensor.layout}")
    # SciPy reads by the indices that it is given without a check.
    _flambeau._sparse_validate(tensor)
    values, shape = tensor._values().detach().numpy(), tuple(tensor.shape)
    if tensor.is_sparse:
        indices = tensor._indices().numpy()
        return scipy.sparse.coo_array((values, tuple(indices)), shape=shape)
    if tensor.layout == flambeau.sparse_bsc:
        return to_scipy(tensor.to_sparse_bsr(tuple(tensor._values().shape[1:3])))
    compressed, plain = _index_parts(tensor)
    make = {
        flambeau.sparse_csr: scipy.sparse.csr_array,
        flambeau.sparse_csc: scipy.sparse.csc_array,
        flambeau.sparse_bsr: scipy.sparse.bsr_array,
    }[tensor.layout]
    return make((values, plain.numpy(), compressed.numpy()), shape=shape)


def _is_compressed(tensor: Tensor) -> bool:
    return tensor.layout in (flambeau.sparse_csr, flambeau.sparse_csc, flambeau.sparse_bsr, flambeau.sparse_bsc)


def _index_parts(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Pointers and plain indices of a compressed tensor."""
    if tensor.layout in (flambeau.sparse_csr, flambeau.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices()
    return tensor.ccol_indices(), tensor.row_indices()

