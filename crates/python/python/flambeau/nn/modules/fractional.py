"""Fractional max pooling, and local response normalisation across channels, as modules."""

from __future__ import annotations

from flambeau.nn import functional as F
from flambeau.nn.functional.fractional import fractional_max_pool2d, fractional_max_pool3d
from flambeau.nn.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


class _FractionalMaxPool(Module):
    """What pictures and volumes have in common."""

    dims: int

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False, _random_samples: Any = None
    ) -> None:
        super().__init__()
        self.kernel_size, self.return_indices = _each(kernel_size, self.dims), return_indices
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.output_size = None if output_size is None else _each(output_size, self.dims)
        self.output_ratio = None if output_ratio is None else _each(output_ratio, self.dims)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.register_buffer("_random_samples", _random_samples)


def _each(value: Any, dims: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class FractionalMaxPool2d(_FractionalMaxPool):
    """`fractional_max_pool2d` as a module."""

    dims = 2

    def forward(self, input: Tensor) -> Any:
        """The largest elements of the windows."""
        return fractional_max_pool2d(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)


class FractionalMaxPool3d(_FractionalMaxPool):
    """`fractional_max_pool3d` as a module."""

    dims = 3

    def forward(self, input: Tensor) -> Any:
        """The largest elements of the windows."""
        return fractional_max_pool3d(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)


class CrossMapLRN2d(Module):
    """Divides each element by a power of the mean square of those in the channels around it."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """The normalised channels."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
