"""What distributions have in common: parameters broadcast together, probabilities and their logarithms."""

from __future__ import annotations

from numbers import Number

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of the same sizes; numbers get the type of the tensors."""
    if not all(isinstance(v, (Tensor, Number)) or hasattr(type(v), "__torch_function__") for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    tensors = [v for v in values if not isinstance(v, Number)]
    where: dict[str, Any] = {"dtype": flambeau.get_default_dtype()}
    if tensors:
        where = {"dtype": tensors[0].dtype, "device": tensors[0].device}
    made = [flambeau.tensor(v, **where) if isinstance(v, Number) else v for v in values]
    return tuple(flambeau.broadcast_tensors(*made))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return flambeau.empty(tuple(shape), dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities that are neither 0 nor 1."""
    eps = flambeau.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of their logarithms, up to a constant; of log-odds if `is_binary`."""
    return logits.sigmoid() if is_binary else F.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class lazy_property:
    """An attribute that is computed when it is first read, with recording, and then stored."""

    def __init__(self, wrapped: Callable[[Any], Tensor]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with flambeau.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What reading the attribute of the class gives, so that tools that write documentation see a property."""

    def __init__(self, wrapped: Callable[[Any], Tensor]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements below and on a diagonal, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = flambeau.tril_indices(n, n, diag).unbind(0)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The matrix with these elements below and on a diagonal, and 0 above."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    size = round(n)
    if abs(n - size) > flambeau.finfo(vec.dtype).eps * 100:
        raise ValueError(f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square matrix.")
    made = vec.new_zeros(vec.shape[:-1] + (size, size))
    rows, columns = flambeau.tril_indices(size, size, diag).unbind(0)
    return _filled(made, rows, columns, vec)


def _filled(made: Tensor, rows: Tensor, columns: Tensor, vec: Tensor) -> Tensor:
    index = rows * made.shape[-1] + columns
    flat = made.reshape(vec.shape[:-1] + (-1,))
    return flat.index_copy(-1, index, vec).reshape(made.shape)
