"""Unpooling as layers."""

from __future__ import annotations

from flambeau.nn import functional as F
from flambeau.nn.module import Module
from flambeau.nn.modules.sizes import for_each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor
    from flambeau.nn.modules.sizes import Sizes


class _MaxUnpool(Module):
    """What unpooling layers have in common; a subclass says how many dimensions it has."""

    dims: int

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = for_each(kernel_size, self.dims)
        self.stride = for_each(kernel_size if stride is None else stride, self.dims)
        self.padding = for_each(padding, self.dims)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """What `MaxPool1d` left out of `[N, C, L]`, as zeros."""

    dims = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """What `MaxPool2d` left out of `[N, C, H, W]`, as zeros."""

    dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpool):
    """What `MaxPool3d` left out of `[N, C, D, H, W]`, as zeros."""

    dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)
