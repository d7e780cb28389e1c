"""Linear algebra under the names of `torch.linalg`."""

from .._flambeau import _linalg
from .._flambeau import matmul as matmul

vector_norm = _linalg.linalg_vector_norm

__all__ = ["matmul", "vector_norm"]
