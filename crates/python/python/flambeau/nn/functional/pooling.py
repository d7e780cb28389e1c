"""Pooling: windows become their largest element, or their mean."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor

    Sizes = int | Sequence[int]


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window, and with `return_indices` where in its picture it lies."""
    stride = [] if stride is None else stride
    pool = flambeau._nn.max_pool2d_with_indices if return_indices else flambeau.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window of volumes, and with `return_indices` where in its volume it lies."""
    stride = [] if stride is None else stride
    pool = flambeau._nn.max_pool3d_with_indices if return_indices else flambeau.max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


avg_pool2d = flambeau._nn.avg_pool2d
avg_pool3d = flambeau._nn.avg_pool3d


def _sizes(input: Tensor, output_size: Sizes | Sequence[int | None], dims: int) -> list[int]:
    """A number for each dimension; None is as many as there are."""
    if isinstance(output_size, int):
        return [output_size] * dims
    if input.ndim <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    return [have if want is None else want for want, have in zip(output_size, input.shape[-len(output_size) :])]


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes | Sequence[int | None]) -> Tensor:
    """The means of as many windows as `output_size` says; None is as many as there are."""
    return flambeau._nn.adaptive_avg_pool2d(input, _sizes(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Sizes | Sequence[int | None]) -> Tensor:
    """The means of as many windows of volumes as `output_size` says; None is as many as there are."""
    return flambeau._nn.adaptive_avg_pool3d(input, _sizes(input, output_size, 3))


def adaptive_max_pool1d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of as many windows of `[N, C, L]` as `output_size` says."""
    made = flambeau.adaptive_max_pool1d(input, output_size)
    return made if return_indices else made[0]


def adaptive_max_pool2d(
    input: Tensor, output_size: Sizes | Sequence[int | None], return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of as many windows as `output_size` says; None is as many as there are."""
    made = flambeau._nn.adaptive_max_pool2d(input, _sizes(input, output_size, 2))
    return made if return_indices else made[0]


def adaptive_max_pool3d(
    input: Tensor, output_size: Sizes | Sequence[int | None], return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest elements of as many windows of volumes as `output_size` says; None is as many as there are."""
    made = flambeau._nn.adaptive_max_pool3d(input, _sizes(input, output_size, 3))
    return made if return_indices else made[0]


def _along(size: Sizes | None, across: int) -> list[int]:
    """The size for pictures one row high."""
    if size is None:
        return []
    return [across, size if isinstance(size, int) else size[0]]


def _check_signal(name: str, input: Tensor) -> None:
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"{name}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{list(input.shape)}"
        )


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window of `[N, C, L]`."""
    _check_signal("max_pool1d", input)
    row = input.unsqueeze(-2)
    windows = (_along(kernel_size, 1), _along(stride, 1), _along(padding, 0), _along(dilation, 1))
    made = max_pool2d(row, *windows, ceil_mode, return_indices)
    return tuple(part.squeeze(-2) for part in made) if isinstance(made, tuple) else made.squeeze(-2)  # type: ignore[return-value]


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of `[N, C, L]`."""
    _check_signal("avg_pool1d", input)
    row = input.unsqueeze(-2)
    made = avg_pool2d(row, _along(kernel_size, 1), _along(stride, 1), _along(padding, 0), ceil_mode, count_include_pad)
    return made.squeeze(-2)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """The means of as many windows of `[N, C, L]` as `output_size` says."""
    if not isinstance(output_size, int) and len(output_size) != 1:
        raise RuntimeError(f"adaptive_avg_pool1d() argument 'output_size' should contain one int (got {len(output_size)})")
    _check_signal("adaptive_avg_pool1d", input)
    return flambeau._nn.adaptive_avg_pool2d(input.unsqueeze(-2), _along(output_size, 1)).squeeze(-2)


def _power_means(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
    dims: int,
) -> Tensor:
    """Roots of sums of powers; at infinity the largest magnitude, at its negative the smallest."""
    if norm_type == 0:
        raise ValueError(f"norm_type must be a non-zero value, but got {norm_type}")
    if abs(norm_type) == float("inf"):
        sign = 1 if norm_type > 0 else -1
        max_pool = (max_pool1d, max_pool2d, max_pool3d)[dims - 1]
        made = max_pool(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        return sign * (made[0] if isinstance(made, tuple) else made)
    powers = input.pow(norm_type)
    if dims == 1:
        means = avg_pool1d(powers, kernel_size, stride, 0, ceil_mode)
    else:
        # For the operators an empty stride is the default.
        step = [] if stride is None else stride
        means = (avg_pool2d if dims == 2 else avg_pool3d)(powers, kernel_size, step, 0, ceil_mode)
    count = 1
    for size in [kernel_size] * dims if isinstance(kernel_size, int) else kernel_size:
        count *= size
    return (means.sign() * means.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of `[N, C, L]`."""
    return _power_means(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of `[N, C, H, W]`."""
    return _power_means(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of `[N, C, D, H, W]`."""
    return _power_means(input, norm_type, kernel_size, stride, ceil_mode, 3)
