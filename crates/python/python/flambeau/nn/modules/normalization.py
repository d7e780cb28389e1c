"""Normalisation as layers."""

from __future__ import annotations

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor


class _Affine(Module):
    """A norm whose result may be scaled by a weight and moved by a bias."""

    weight: Tensor | None
    bias: Tensor | None

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _NormBase(_Affine):
    """A normalisation of channels with running statistics."""

    _version = 2
    ndims: tuple[int, ...]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        for name, present in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(flambeau.empty(num_features, **where)) if present else None)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, flambeau.empty(num_features, **where) if track_running_stats else None)
        count = flambeau.tensor(0, dtype=flambeau.int64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forgets what was seen."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and nothing seen."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ndims:
            expected = " or ".join(f"{ndim}D" for ndim in self.ndims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, *more: Any) -> None:
        # States saved before version 2 have no count of batches.
        key, version = prefix + "num_batches_tracked", local_metadata.get("version")
        if (version is None or version < 2) and self.num_batches_tracked is not None and key not in state_dict:
            state_dict[key] = self.num_batches_tracked.clone()
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *more)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked.item())
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        used = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if used else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Over each channel of a batch `[N, C]` or `[N, C, L]`: Ioffe and Szegedy, 2015."""

    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Over each channel of a batch `[N, C, H, W]`."""

    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Over each channel of a batch `[N, C, D, H, W]`."""

    ndims = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        batched = input if input.ndim == self.ndims[1] else input.unsqueeze(0)
        if batched.shape[1] != self.num_features and self.affine:
            raise ValueError(
                f"expected input's size at dim={1 if input is batched else 0} to match num_features "
                f"({self.num_features}), but got: {batched.shape[1]}."
            )
        own = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        running = (self.running_mean, self.running_var)
        made = F.instance_norm(batched, *running, self.weight, self.bias, own, momentum, self.eps)
        return made if input is batched else made.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Over each channel of each of `[N, C, L]`: Ulyanov et al., 2016."""

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Over each channel of each of `[N, C, H, W]`."""

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Over each channel of each of `[N, C, D, H, W]`."""

    ndims = (4, 5)


class LayerNorm(_Affine):
    """Over the last dimensions: Ba et al., 2016."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        make = lambda: Parameter(flambeau.empty(shape, device=device, dtype=dtype))  # noqa: E731
        self.register_parameter("weight", make() if elementwise_affine else None)
        self.register_parameter("bias", make() if elementwise_affine and bias else None)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine, bias = self.elementwise_affine, self.bias is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}, bias={bias}"


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions: Zhang and Sennrich, 2019."""

    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        weight = Parameter(flambeau.empty(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Over groups of channels of each picture: Wu and He, 2018."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        for name, present in (("weight", affine), ("bias", affine and bias)):
            made = Parameter(flambeau.empty(num_channels, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """Divides each channel by a power of the mean square of its neighbours: Krizhevsky et al., 2012."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
