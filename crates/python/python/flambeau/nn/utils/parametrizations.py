"""Weights that are orthogonal, of spectral norm 1, or direction and length: functions for `parametrize`."""

from __future__ import annotations

import flambeau
from flambeau.nn.module import Module
from flambeau.nn.utils import parametrize
from flambeau.nn.utils.spectral_normalization import as_matrix, default_dim, iterate, singular_vectors
from flambeau.nn.utils.weight_normalization import _weight_norm, norm_except_dim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """Length and direction as a weight."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Length and direction of a weight."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Makes a weight of its length, `original0`, and its direction, `original1`."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def older_names(state: dict[str, Any], prefix: str, *more: Any) -> None:
        for ending, index in (("_g", 0), ("_v", 1)):
            old, new = f"{prefix}{name}{ending}", f"{prefix}parametrizations.{name}.original{index}"
            if old in state:
                state[new] = state.pop(old)

    module._register_load_state_dict_pre_hook(older_names)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.eps, self.n_power_iterations = dim % weight.dim(), eps, n_power_iterations
        if weight.dim() > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            u, v = singular_vectors(matrix, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            iterate(matrix, u, v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return flambeau.nn.functional.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        u, v = self._u.clone(), self._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """The weight itself: it may have any norm."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divides a weight by its largest singular value."""
    weight = getattr(module, name)
    function = _SpectralNorm(weight, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    parametrize.register_parametrization(module, name, function)
    return module


class _Orthogonal(Module):
    """A matrix with orthogonal rows or columns, of one without constraints.

    The matrix is `base` times the exponential, or Cayley's transform, of a skew-symmetric one.
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.orthogonal_map = orthogonal_map
        self.register_buffer("base", _orthogonal_matrix(weight.detach()))

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        n, k = x.shape[-2:]
        lower = x.tril(-1)
        if n != k:
            lower = flambeau.cat([lower, lower.new_zeros((*lower.shape[:-2], n, n - k))], -1)
        skew = lower - lower.mT
        identity = flambeau.eye(n, dtype=X.dtype)
        if self.orthogonal_map == "matrix_exp":
            made = flambeau.linalg.matrix_exp(skew)
        else:
            half = skew / 2
            made = flambeau.linalg.solve(identity - half, identity + half)
        base = self.base.mT if wide else self.base
        result = base @ made[..., :k, :k] if n == k else made @ base
        return result.mT if wide else result

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Takes the matrix as the base, of which the matrix without constraints, 0, makes the same one."""
        self.base = _orthogonal_matrix(Q)
        return flambeau.zeros_like(Q)


def _orthogonal_matrix(weight: Tensor) -> Tensor:
    """The nearest matrix with orthogonal rows or columns, by Gram and Schmidt's order."""
    wide = weight.shape[-2] < weight.shape[-1]
    q, r = flambeau.linalg.qr(weight.mT if wide else weight)
    q = q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return q.mT if wide else q


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Makes a weight have orthogonal rows or columns, whichever are fewer."""
    weight = getattr(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    chosen = orthogonal_map or ("matrix_exp" if weight.shape[-2] == weight.shape[-1] else "cayley")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    if chosen == "householder":
        chosen = "cayley"
    parametrize.register_parametrization(module, name, _Orthogonal(weight, chosen), unsafe=True)
    return module
