"""Constructors of sparse tensors, and the methods of tensors that concern them."""

from __future__ import annotations

from . import _flambeau
from ._flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "hspmm",
    "smm",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sspaddmm",
]

_BY_ROWS = (_flambeau.sparse_csr, _flambeau.sparse_bsr)
_COMPRESSED = (*_BY_ROWS, _flambeau.sparse_csc, _flambeau.sparse_bsc)


def _leaf(values: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """Values as a tensor; of a tensor that is to require a gradient by itself, without its history."""
    made = values if isinstance(values, Tensor) else _flambeau.as_tensor(values, dtype=dtype, device=device)
    if requires_grad:
        made = made.detach()
    if dtype is not None or device is not None:
        made = made.to(dtype=dtype or made.dtype, device=device or made.device)
    return made


def _indices(indices: Any, device: Any) -> Tensor:
    made = indices if isinstance(indices, Tensor) else _flambeau.as_tensor(indices)
    if made.numel() == 0 and not isinstance(indices, Tensor):
        made = made.to(_flambeau.int64)
    return made if device is None else made.to(device)


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad else made


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor of coordinates and values: `indices` of `[sparse_dim, nnz]`, `values` of `[nnz, *dense]`. With a size alone it has no elements.

    Indices are always checked, whatever `check_invariants` says.
    """
    if values is None:
        size = indices
        sizes = list(size) if not isinstance(size, int) else [size]
        indices = _flambeau.empty(len(sizes), 0, dtype=_flambeau.int64)
        values, size, is_coalesced = _flambeau.empty(0, dtype=dtype), sizes, True
    values = _leaf(values, dtype, device, requires_grad)
    indices = _indices(indices, device)
    if values.dim() == 0 and indices.dim() == 2:
        values = values.expand(indices.shape[1])
    made = _flambeau._sparse_coo_tensor(indices, values, None if size is None else list(size), is_coalesced)
    return _finished(made, requires_grad)


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A tensor of compressed rows or columns, of elements or blocks. Indices are always checked."""
    if layout is None:
        raise TypeError("sparse_compressed_tensor: expected a layout: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc")
    values = _leaf(values, dtype, device, requires_grad)
    parts = _indices(compressed_indices, device), _indices(plain_indices, device)
    made = _flambeau._sparse_compressed_tensor(layout, *parts, values, None if size is None else list(size))
    return _finished(made, requires_grad)


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, **options: Any) -> Tensor:
    """A tensor of compressed rows."""
    return _compressed(_flambeau.sparse_csr, crow_indices, col_indices, values, size, options)


def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, **options: Any) -> Tensor:
    """A tensor of compressed columns."""
    return _compressed(_flambeau.sparse_csc, ccol_indices, row_indices, values, size, options)


def sparse_bsr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, **options: Any) -> Tensor:
    """A tensor of compressed rows of blocks."""
    return _compressed(_flambeau.sparse_bsr, crow_indices, col_indices, values, size, options)


def sparse_bsc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, **options: Any) -> Tensor:
    """A tensor of compressed columns of blocks."""
    return _compressed(_flambeau.sparse_bsc, ccol_indices, row_indices, values, size, options)


def _compressed(layout: Any, compressed: Any, plain: Any, values: Any, size: Any, options: dict[str, Any]) -> Tensor:
    if options.pop("layout", layout) != layout:
        raise ValueError(f"expected the layout {layout}")
    return sparse_compressed_tensor(compressed, plain, values, size, layout=layout, **options)


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse matrix."""
    return _flambeau.mm(input, mat).to_sparse()


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse tensor whose last dimension is dense."""
    return _flambeau.mm(mat1, mat2).to_sparse(1)


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta input + alpha (mat1 @ mat2)` of a sparse `input` and a sparse `mat1`, as a sparse matrix."""
    return input * beta + smm(mat1, mat2) * alpha


# Methods.


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """The strided tensor of all elements; itself if it is strided."""
    made = _flambeau._sparse_to_dense(self)
    return made if dtype is None else made.to(dtype)


def _block(blocksize: Any) -> list[int] | None:
    if blocksize is None:
        return None
    block = list(blocksize)
    if len(block) != 2:
        raise ValueError(f"to_sparse: expected a blocksize of two numbers but got {blocksize}")
    return block


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
    """A sparse tensor of the elements that are not 0: of coordinates, or of the given layout."""
    if isinstance(sparse_dim, int) and (layout is not None or blocksize is not None or dense_dim is not None):
        raise TypeError("to_sparse: expected either a number of sparse dimensions, or a layout with its options")
    if layout is None and blocksize is not None:
        raise ValueError("to_sparse: expected a blocked layout with a blocksize")
    if layout is None and dense_dim is None:
        return _flambeau._sparse_to_coo(self, sparse_dim)
    return _flambeau._sparse_to(self, layout or _flambeau.sparse_coo, _block(blocksize), dense_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """A tensor of coordinates."""
    return _flambeau._sparse_to_coo(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A tensor of compressed rows."""
    return _flambeau._sparse_to(self, _flambeau.sparse_csr, None, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A tensor of compressed columns."""
    return _flambeau._sparse_to(self, _flambeau.sparse_csc, None, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """A tensor of compressed rows of blocks."""
    return _flambeau._sparse_to(self, _flambeau.sparse_bsr, _block(blocksize), dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """A tensor of compressed columns of blocks."""
    return _flambeau._sparse_to(self, _flambeau.sparse_bsc, _block(blocksize), dense_dim)


def coalesce(self: Tensor) -> Tensor:
    """The same tensor with distinct coordinates in ascending order."""
    return _flambeau._sparse_coalesce(self)


def is_coalesced(self: Tensor) -> bool:
    """Whether coordinates are distinct and in ascending order."""
    return _flambeau._sparse_is_coalesced(self)


def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions; 0 of a strided tensor."""
    return _flambeau._sparse_dims(self)[0]


def dense_dim(self: Tensor) -> int:
    """The number of dense dimensions."""
    return _flambeau._sparse_dims(self)[1]


def _nnz(self: Tensor) -> int:
    """How many elements or blocks are stored."""
    return _flambeau._sparse_nnz(self)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the coordinates of a sparse tensor."""
    return _flambeau._sparse_mask(self, mask)


def sparse_resize_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """Gives the tensor other sizes in place."""
    _flambeau._sparse_resize_(self, list(size), sparse_dim, dense_dim)
    return self


def sparse_resize_and_clear_(self: Tensor, size: Sequence[int], sparse_dim: int, dense_dim: int) -> Tensor:
    """The same without elements."""
    return self.zero_().sparse_resize_(size, sparse_dim, dense_dim)


def _part(name: str) -> Any:
    def part(self: Tensor) -> Tensor:
        return _flambeau._sparse_part(self, name)

    part.__name__ = part.__qualname__ = name
    part.__doc__ = f"The part `{name.lstrip('_')}` of a sparse tensor."
    return part


def is_sparse_csr(self: Tensor) -> bool:
    """Whether it is of compressed rows."""
    return self.layout == _flambeau.sparse_csr


# Pickling.


def recipe(self: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """The function and arguments that rebuild a sparse tensor from its parts: the name of the layout, the parts, and whether it requires
    a gradient."""
    layout, size, values = self.layout, tuple(self.shape), self._values().detach()
    name = str(layout).split(".")[-1]
    if layout == _flambeau.sparse_coo:
        return rebuilt, (name, (self._indices(), values, size, self.is_coalesced()), self.requires_grad)
    by_rows = layout in _BY_ROWS
    compressed = self.crow_indices() if by_rows else self.ccol_indices()
    plain = self.col_indices() if by_rows else self.row_indices()
    return rebuilt, (name, (compressed, plain, values, size), self.requires_grad)


def rebuilt(layout: Any, parts: Any, requires_grad: bool = False) -> Tensor:
    """A sparse tensor of its parts. Those of a file may be wrong, and are checked."""
    if isinstance(layout, str):
        layout = next(known for known in (_flambeau.sparse_coo, *_COMPRESSED) if str(known).endswith(f".{layout}"))
    if layout == _flambeau.sparse_coo:
        indices, values, size, *rest = parts
        is_coalesced = bool(rest[0]) if rest and rest[0] else None
        made = _flambeau._sparse_coo_tensor(indices, values, list(size), is_coalesced)
    else:
        compressed, plain, values, size = parts
        made = _flambeau._sparse_compressed_tensor(layout, compressed, plain, values, list(size))
    return _finished(made, requires_grad)


def is_layout(self: Tensor) -> bool:
    """Whether the tensor has a sparse layout."""
    return self.layout != _flambeau.strided


def install(tensor: Any) -> None:
    """Puts the methods on the class."""
    methods = (
        to_dense, to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc, coalesce, is_coalesced, sparse_dim,
        dense_dim, _nnz, sparse_mask, sparse_resize_, sparse_resize_and_clear_, smm, sspaddmm,
    )  # fmt: skip
    for method in methods:
        setattr(tensor, method.__name__, method)
    for name in ("indices", "_indices", "values", "_values", "crow_indices", "col_indices", "ccol_indices", "row_indices"):
        setattr(tensor, name, _part(name))
    tensor.is_sparse_csr = property(is_sparse_csr)
