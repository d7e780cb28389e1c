"""Convolutions as layers."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.functional.convolution import same_padding
from flambeau.nn.module import Module
from flambeau.nn.modules.sizes import for_each
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor
    from flambeau.nn.modules.sizes import Sizes

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What convolutions have in common; a subclass says how many dimensions it has."""

    dims: int
    transposed = False
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__()
        _check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = for_each(kernel_size, self.dims), for_each(stride, self.dims)
        self.dilation = for_each(dilation, self.dims)
        self.padding = padding if isinstance(padding, str) else for_each(padding, self.dims)
        self.output_padding = (0,) * self.dims
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(flambeau.empty((*channels, *self.kernel_size), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(flambeau.empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias from `-1 / sqrt(fan_in)` to `1 / sqrt(fan_in)`."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in = math.prod(self.weight.shape[1:])
        if self.bias is not None and fan_in != 0:
            bound = 1 / math.sqrt(fan_in)
            init.uniform_(self.bias, -bound, bound)

    def _around(self) -> list[int]:
        """What `pad` adds for a padding mode that the operator does not know."""
        if isinstance(self.padding, str):
            pairs = same_padding(self.kernel_size, self.dilation) if self.padding == "same" else [(0, 0)] * self.dims
        else:
            pairs = [(size, size) for size in self.padding]
        return [size for pair in reversed(pairs) for size in pair]

    def _padded(self, input: Tensor) -> tuple[Tensor, tuple[int, ...] | str]:
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._around(), mode=self.padding_mode), (0,) * self.dims

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.dims:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.dims:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.dims:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


def _check(
    in_channels: int, out_channels: int, groups: int, padding: Sizes | str, stride: Sizes, padding_mode: str
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
        if padding == "same" and any(step != 1 for step in for_each(stride, 1)):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got padding_mode='{padding_mode}'")


class Conv1d(_ConvNd):
    """`[N, C, L]` to `[N, O, L']`."""

    dims = 1

    def forward(self, input: Tensor) -> Tensor:
        input, padding = self._padded(input)
        return F.conv1d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv2d(_ConvNd):
    """`[N, C, H, W]` to `[N, O, H', W']`."""

    dims = 2

    def forward(self, input: Tensor) -> Tensor:
        input, padding = self._padded(input)
        return F.conv2d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv3d(_ConvNd):
    """`[N, C, D, H, W]` to `[N, O, D', H', W']`."""

    dims = 3

    def forward(self, input: Tensor) -> Tensor:
        input, padding = self._padded(input)
        return F.conv3d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions have in common: their arguments come in another order."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        sizes = (kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, groups, bias, padding_mode, device, dtype)
        self.output_padding = for_each(output_padding, self.dims)

    def _output_padding(self, input: Tensor, output_size: Sizes | None) -> tuple[int, ...]:
        """The output padding for `output_size`: a convolution has the same output size for several input sizes."""
        if output_size is None:
            return self.output_padding
        sizes = for_each(output_size, self.dims)[-self.dims :]
        padding = for_each(self.padding, self.dims)  # type: ignore[arg-type]
        smallest = [
            (input.shape[i - self.dims] - 1) * self.stride[i]
            - 2 * padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(self.dims)
        ]
        largest = [size + step - 1 for size, step in zip(smallest, self.stride)]
        if not all(low <= size <= high for low, size, high in zip(smallest, sizes, largest)):
            raise ValueError(
                f"requested an output size of {list(sizes)}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {list(input.shape[-self.dims :])})"
            )
        return tuple(size - low for size, low in zip(sizes, smallest))


class ConvTranspose1d(_ConvTransposeNd):
    """`[N, C, L]` to `[N, O, L']` by the transposed convolution."""

    dims = 1

    def forward(self, input: Tensor, output_size: Sizes | None = None) -> Tensor:
        more = self._output_padding(input, output_size)
        sizes = (self.stride, self.padding, more, self.groups, self.dilation)
        return F.conv_transpose1d(input, self.weight, self.bias, *sizes)  # type: ignore[arg-type]


class ConvTranspose2d(_ConvTransposeNd):
    """`[N, C, H, W]` to `[N, O, H', W']` by the transposed convolution."""

    dims = 2

    def forward(self, input: Tensor, output_size: Sizes | None = None) -> Tensor:
        more = self._output_padding(input, output_size)
        sizes = (self.stride, self.padding, more, self.groups, self.dilation)
        return F.conv_transpose2d(input, self.weight, self.bias, *sizes)  # type: ignore[arg-type]


class ConvTranspose3d(_ConvTransposeNd):
    """`[N, C, D, H, W]` to `[N, O, D', H', W']` by the transposed convolution."""

    dims = 3

    def forward(self, input: Tensor, output_size: Sizes | None = None) -> Tensor:
        more = self._output_padding(input, output_size)
        sizes = (self.stride, self.padding, more, self.groups, self.dilation)
        return F.conv_transpose3d(input, self.weight, self.bias, *sizes)  # type: ignore[arg-type]
