"""Images in another size, in which a pixel is a weighted mean of all pixels that it covers: `interpolate` with `antialias`.

Rows are resized first, then columns. Bytes are mixed by whole numbers, and rounded after each of the two, as Pillow and PyTorch do.
"""

from __future__ import annotations

import math

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor


def _triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: Tensor) -> Tensor:
    x, a = x.abs(), -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return flambeau.where(x < 1, near, flambeau.where(x < 2, far, 0.0))


def _lanczos(x: Tensor) -> Tensor:
    return flambeau.where(x.abs() < 3, flambeau.sinc(x) * flambeau.sinc(x / 3), 0.0)


# The filter of a mode, and where it ends.
_FILTERS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic, 2.0), "lanczos": (_lanczos, 3.0)}
MODES = tuple(_FILTERS)


def resized(
    input: Tensor, sizes: Sequence[int] | None, factors: Sequence[float] | None, mode: str, align_corners: bool
) -> Tensor:
    """`[N, C, H, W]` with other heights and widths: given ones, or multiples."""
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if not (input.is_floating_point() or input.dtype is flambeau.uint8):
        raise NotImplementedError(f"interpolate: antialias is not implemented for {input.dtype}")
    before = tuple(input.shape[2:])
    after = tuple(sizes) if sizes is not None else tuple(int(n * factor) for n, factor in zip(before, factors or ()))
    if min(*before, *after) <= 0:
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input {before} output {after}")
    single = input.dtype in (flambeau.float16, flambeau.bfloat16)
    result = input.float() if single else input
    for axis in (1, 0):
        scale = _scale(before[axis], after[axis], None if factors is None else factors[axis], align_corners)
        result = _resized_along(result, axis + 2, _positions(before[axis], after[axis], scale, mode))
    return result.to(input.dtype) if single else result


def _scale(before: int, after: int, factor: float | None, align_corners: bool) -> float:
    """How many pixels a pixel of the result covers."""
    if align_corners:
        return (before - 1) / (after - 1) if after > 1 else 0.0
    return before / after if factor is None else 1 / factor


def _positions(before: int, after: int, scale: float, mode: str) -> tuple[Tensor, Tensor]:
    """For each pixel of the result which pixels it is the mean of, and their weights: `[after, count]`."""
    kernel, support = _FILTERS[mode]
    width = max(scale, 1.0)
    radius = support * width
    centers = ((flambeau.arange(after, dtype=flambeau.float64) + 0.5) * scale)[:, None]
    first = (centers - radius + 0.5).clamp(min=0).trunc()
    end = (centers + radius + 0.5).trunc().clamp(max=before)
    positions = first + flambeau.arange(2 * math.ceil(radius) + 1, dtype=flambeau.float64)
    weights = flambeau.where(positions < end, kernel((positions - centers + 0.5) / width), 0.0)
    return positions.clamp(max=before - 1).long(), weights / weights.sum(1, keepdim=True)


def _resized_along(x: Tensor, dim: int, positions: tuple[Tensor, Tensor]) -> Tensor:
    indices, weights = positions
    if x.dtype is flambeau.uint8:
        weights, bits = _whole(weights)
        total = _sum_along(x.int(), dim, indices, weights) + (1 << (bits - 1))
        return (total >> bits).clamp(0, 255).to(flambeau.uint8)
    return _sum_along(x, dim, indices, weights.to(x.dtype))


def _whole(weights: Tensor) -> tuple[Tensor, int]:
    """The weights as multiples of 2^-bits, with as many bits as 16-bit numbers allow."""
    largest = weights.max().item()
    bits = next(bits for bits in range(23) if bits == 22 or int(0.5 + largest * 2 ** (bits + 1)) >= 1 << 15)
    scaled = weights * 2**bits
    return (scaled + flambeau.where(scaled < 0, -0.5, 0.5)).trunc().int(), bits


def _sum_along(x: Tensor, dim: int, indices: Tensor, weights: Tensor) -> Tensor:
    """One summand after another, so that no intermediate result is larger than the result."""
    shape = (-1, 1) if dim == 2 else (-1,)
    parts = (
        x.index_select(dim, index) * weight.reshape(shape) for index, weight in zip(indices.unbind(1), weights.unbind(1))
    )
    total = next(parts)
    for part in parts:
        total = total + part
    return total
