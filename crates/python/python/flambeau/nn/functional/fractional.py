"""Fractional max pooling: windows whose positions are drawn, so that sizes are reduced by any ratio (Graham, 2014)."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor

    Sizes = int | Sequence[int]
    Ratios = float | Sequence[float] | None


def _listed(value: Sizes, dims: int) -> list[int]:
    return [value] * dims if isinstance(value, int) else list(value)


def _windows(draw: Tensor, size: int, count: int, width: int) -> Tensor:
    """For each number that was drawn the indices of the elements in each window: (..., count, width)."""
    if width + count - 1 > size:
        raise RuntimeError(f"fractional_max_pool: kernel size {width} is too large relative to input of size {size} for an output of {count}")
    if count > 1:
        ratio = (size - width) / (count - 1)
        draw = draw.unsqueeze(-1)
        steps = flambeau.arange(count - 1, dtype=draw.dtype)
        starts = ((steps + draw) * ratio).to(flambeau.int64) - (draw * ratio).to(flambeau.int64)
        starts = flambeau.cat([starts, flambeau.full_like(starts[..., :1], size - width)], -1)
    else:
        starts = flambeau.full((*draw.shape, 1), size - width, dtype=flambeau.int64)
    return starts.unsqueeze(-1) + flambeau.arange(width)


def _pooled(input: Tensor, kernel_size: Sizes, output_size: Sizes | None, output_ratio: Ratios, draws: Tensor | None, dims: int) -> tuple[Tensor, Tensor]:
    """The largest elements of the windows and their positions."""
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
    is_single = input.dim() == dims + 1
    x = input.unsqueeze(0) if is_single else input
    sizes = x.shape[-dims:]
    if output_size is None:
        ratios = [output_ratio] * dims if isinstance(output_ratio, (int, float)) else list(output_ratio or ())
        output_size = [int(size * ratio) for size, ratio in zip(sizes, ratios)]
    counts, widths = _listed(output_size, dims), _listed(kernel_size, dims)
    if draws is None:
        draws = flambeau.rand((x.shape[0], x.shape[1], dims), dtype=x.dtype if x.is_floating_point() else None)
    # The numbers that are drawn are those of the last dimension first, but for volumes, whose first is the first.
    order = range(dims) if dims == 3 else range(dims - 1, -1, -1)
    flat = flambeau.zeros((*x.shape[:2], *[1] * (2 * dims)), dtype=flambeau.int64)
    for axis in range(dims):
        parts = _windows(draws[..., order[axis]], sizes[axis], counts[axis], widths[axis])
        shape = [1] * (2 * dims)
        shape[axis], shape[dims + axis] = counts[axis], widths[axis]
        flat = flat * sizes[axis] + parts.reshape(*x.shape[:2], *shape)
    indices = flat.flatten(2 + dims)
    rows = x.flatten(2).gather(2, indices.flatten(2)).reshape(indices.shape)
    values, at = rows.max(-1)
    found = indices.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    return (values.squeeze(0), found.squeeze(0)) if is_single else (values, found)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each of `output_size` windows of a picture, whose positions are drawn."""
    found = _pooled(input, kernel_size, output_size, output_ratio, _random_samples, 2)
    return found if return_indices else found[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The same of volumes."""
    found = _pooled(input, kernel_size, output_size, output_ratio, _random_samples, 3)
    return found if return_indices else found[0]
