"""Convolutions, with padding by number or by name."""

from __future__ import annotations

import flambeau
from flambeau.nn.functional.padding import pad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor

    Sizes = int | Sequence[int]


def same_padding(kernel_size: Sequence[int], dilation: Sequence[int]) -> list[tuple[int, int]]:
    """The padding before and after each dimension that preserves the size with stride 1; an odd element is added after."""
    totals = [d * (k - 1) for k, d in zip(kernel_size, dilation)]
    return [(total // 2, total - total // 2) for total in totals]


def _with_padding(
    input: Tensor, weight: Tensor, stride: Sizes, padding: Sizes | str, dilation: Sizes
) -> tuple[Tensor, Sizes]:
    """The input and its padding as numbers, also if the padding was given by name."""
    if not isinstance(padding, str):
        return input, padding
    dims = weight.ndim - 2
    if padding == "valid":
        return input, [0] * dims
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    each = lambda sizes: [sizes] * dims if isinstance(sizes, int) else list(sizes)  # noqa: E731
    if any(step != 1 for step in each(stride)):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    pairs = same_padding(weight.shape[2:], each(dilation))
    if all(before == after for before, after in pairs):
        return input, [before for before, _ in pairs]
    return pad(input, [size for pair in reversed(pairs) for size in pair]), [0] * dims


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`[N, C, L]` with a weight `[O, C / groups, K]` to `[N, O, L']`."""
    input, sizes = _with_padding(input, weight, stride, padding, dilation)
    return flambeau.conv1d(input, weight, bias, stride, sizes, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`[N, C, H, W]` with a weight `[O, C / groups, K, L]` to `[N, O, H', W']`."""
    input, sizes = _with_padding(input, weight, stride, padding, dilation)
    return flambeau.conv2d(input, weight, bias, stride, sizes, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """`[N, C, D, H, W]` with a weight `[O, C / groups, K, L, M]` to `[N, O, D', H', W']`."""
    return flambeau.conv3d(input, weight, bias, stride, padding, dilation, groups)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The derivative of `conv3d` by its input, as a layer."""
    return flambeau.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The derivative of `conv2d` by its input, as a layer: `[N, C, H, W]` with a weight `[C, O / groups, K, L]`."""
    return flambeau.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """The derivative of `conv1d` by its input, as a layer: pictures one row high."""
    along = lambda size, across: [across, size if isinstance(size, int) else size[0]]  # noqa: E731
    made = flambeau.conv_transpose2d(
        input.unsqueeze(-2),
        weight.unsqueeze(-2),
        bias,
        along(stride, 1),
        along(padding, 0),
        along(output_padding, 0),
        groups,
        along(dilation, 1),
    )
    return made.squeeze(-2)
