"""A weight divided by its largest singular value (Miyato et al., 2018), which a power iteration estimates at each call."""

from __future__ import annotations

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.nn.module import Module

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix with a row for each index of `dim`."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def iterate(matrix: Tensor, u: Tensor, v: Tensor, steps: int, eps: float) -> None:
    """Improves the singular vectors `u` and `v`, in place."""
    with flambeau.no_grad():
        for _ in range(steps):
            v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=eps))
            u.copy_(F.normalize(matrix.mv(v), dim=0, eps=eps))


def singular_vectors(matrix: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Random vectors to begin with."""
    with flambeau.no_grad():
        u = F.normalize(matrix.new_empty(matrix.shape[0]).normal_(0, 1), dim=0, eps=eps)
        v = F.normalize(matrix.new_empty(matrix.shape[1]).normal_(0, 1), dim=0, eps=eps)
    return u, v


def default_dim(module: Any) -> int:
    """The dimension of outputs: transposed convolutions have theirs second."""
    from flambeau.nn import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class SpectralNorm:
    """The hook that computes the weight."""

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided by the estimate."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            iterate(matrix, u, v, self.n_power_iterations, self.eps)
            u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Makes the weight a parameter again."""
        with flambeau.no_grad():
            weight = self.compute_weight(module, False)
        for ending in ("_u", "_v", "_orig"):
            delattr(module, self.name + ending)
        delattr(module, self.name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replaces a parameter."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight: Any = module._parameters.pop(name)
        u, v = singular_vectors(as_matrix(weight, dim), eps)
        module.register_parameter(name + "_orig", weight)
        object.__setattr__(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(made)
        return made


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divides the weight of the module by its largest singular value."""
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Takes away what `spectral_norm` did."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
