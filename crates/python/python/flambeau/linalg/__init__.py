"""Linear algebra under the names of `torch.linalg`."""

from .._flambeau import _linalg

vector_norm = _linalg.linalg_vector_norm

__all__ = ["vector_norm"]
