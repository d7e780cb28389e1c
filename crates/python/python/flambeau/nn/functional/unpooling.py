"""Unpooling: elements go back to where pooling found them, among zeros."""

from __future__ import annotations

import flambeau
from flambeau.nn.modules.sizes import for_each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor
    from flambeau.nn.modules.sizes import Sizes


def _output_size(
    input: Tensor,
    kernel_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Sequence[int] | None,
) -> list[int]:
    """The requested sizes, if pooling of these could have given the input; by default the smallest such."""
    dims = len(kernel_size)
    own = input.shape[-dims:]
    smallest = [(n - 1) * step + k - 2 * pad for n, step, k, pad in zip(own, stride, kernel_size, padding)]
    sizes = smallest if output_size is None else list(output_size)
    if len(sizes) == dims + 2:
        sizes = sizes[2:]
    if len(sizes) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of '{len(sizes)}'"
        )
    for d, (size, near, step) in enumerate(zip(sizes, smallest, stride)):
        low, high = near - step, near + step
        if output_size is not None and not low < size < high:
            raise ValueError(f'invalid output_size "{sizes}" (dim {d} must be between {low} and {high})')
        if size < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={size}"
            )
    return sizes


def _windows(
    dims: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernel = for_each(kernel_size, dims)
    return kernel, kernel if stride is None else for_each(stride, dims), for_each(padding, dims)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What `max_pool1d` with `return_indices` left out, as zeros."""
    size = _output_size(input, *_windows(1, kernel_size, stride, padding), output_size)
    return flambeau._nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What `max_pool2d` with `return_indices` left out, as zeros."""
    size = _output_size(input, *_windows(2, kernel_size, stride, padding), output_size)
    return flambeau._nn.max_unpool2d(input, indices, size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What `max_pool3d` with `return_indices` left out, as zeros."""
    kernel, step, around = _windows(3, kernel_size, stride, padding)
    size = _output_size(input, kernel, step, around, output_size)
    return flambeau._nn.max_unpool3d(input, indices, size, step, around)
