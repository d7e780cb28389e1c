"""Images in another size, sampled at other positions, and cut into patches."""

from __future__ import annotations

import flambeau
from flambeau.nn.functional import antialias as antialiasing
from flambeau.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from flambeau import Tensor

    Sizes = int | Sequence[int]
    Factors = float | Sequence[float]

_nn = flambeau._nn
_MEANS = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}
# The operator of a mode for images of so many dimensions: those that pick pixels, and those that mix them.
_PICKING = {
    ("nearest", 3): _nn.upsample_nearest1d,
    ("nearest", 4): _nn.upsample_nearest2d,
    ("nearest", 5): _nn.upsample_nearest3d,
    ("nearest-exact", 3): _nn._upsample_nearest_exact1d,
    ("nearest-exact", 4): _nn._upsample_nearest_exact2d,
    ("nearest-exact", 5): _nn._upsample_nearest_exact3d,
}
_MIXING = {
    ("linear", 3): _nn.upsample_linear1d,
    ("bilinear", 4): _nn.upsample_bilinear2d,
    ("trilinear", 5): _nn.upsample_trilinear3d,
    ("bicubic", 4): _nn.upsample_bicubic2d,
}
_DIMS = {mode: dims for mode, dims in _MIXING}
_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _for_each(name: str, input: Tensor, values: Sizes | Factors) -> list[float]:
    """A number for each spatial dimension."""
    dims = input.ndim - 2
    if isinstance(values, (int, float)):
        return [values] * dims
    if len(values) != dims:
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(input.shape[2:])} and {name} of {values}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
            "and sizes in (s1, s2, ...,sK) format."
        )
    return list(values)


def _sizes_or_factors(
    input: Tensor, size: Sizes | None, scale_factor: Factors | None, recompute: bool
) -> tuple[list[int] | None, list[float] | None]:
    """Sizes or factors; factors are converted to sizes if `recompute`."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = _for_each("output", input, size)
        if not all(isinstance(n, int) for n in sizes):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
                f"but got size with types {[type(n) for n in sizes]}"
            )
        return [int(n) for n in sizes], None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors = _for_each("scale_factor", input, scale_factor)
    if recompute:
        return [int(n * factor) for n, factor in zip(input.shape[2:], factors)], None
    return None, [float(factor) for factor in factors]


def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`[N, C, ...]` with other spatial sizes, given or a multiple of what they are."""
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    sizes, factors = _sizes_or_factors(input, size, scale_factor, bool(recompute_scale_factor) or mode == "area")
    if antialias:
        if mode not in antialiasing.MODES or input.ndim != 4:
            raise ValueError(
                "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
            )
        return antialiasing.resized(input, sizes, factors, mode, bool(align_corners))
    if mode == "lanczos":
        raise ValueError("Lanczos mode requires antialias=True")
    kind = (mode, input.ndim)
    if kind in _PICKING:
        return _PICKING[kind](input, sizes, factors)
    if mode == "area" and input.ndim in _MEANS and sizes is not None:
        return _MEANS[input.ndim](input, sizes)
    if kind in _MIXING:
        return _MIXING[kind](input, sizes, bool(align_corners), factors)
    if mode in _DIMS and input.ndim in _MEANS:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {_DIMS[mode]}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
        f"nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
    )


def upsample(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate`, under the name it had."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Sizes | None = None, scale_factor: Factors | None = None) -> Tensor:
    """`interpolate` by the nearest pixel."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: Sizes | None = None, scale_factor: Factors | None = None) -> Tensor:
    """`interpolate` between pixels, with corners that stay where they are."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def _warn_of_corners() -> None:
    import warnings

    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
        "Please specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.",
        stacklevel=3,
    )


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Pixels at the positions in `grid`, -1 being one end of the image and 1 the other."""
    if mode not in _INTERPOLATIONS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if align_corners is None:
        _warn_of_corners()
    numbers = _INTERPOLATIONS.index(mode), _PADDINGS.index(padding_mode)
    return flambeau.grid_sampler(input, grid, *numbers, bool(align_corners))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` of an affine map for each image of `size`."""
    if align_corners is None:
        _warn_of_corners()
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."
        )
    dims = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return flambeau.affine_grid_generator(theta, size, bool(align_corners))


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The patches of `[N, C, H, W]` as columns: `[N, C * patch, patches]`."""
    return _nn.im2col(input, *(_pair(sizes) for sizes in (kernel_size, dilation, padding, stride)))


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Columns added up to an image of `output_size`."""
    return _nn.col2im(input, *(_pair(sizes) for sizes in (output_size, kernel_size, dilation, padding, stride)))


def _pair(sizes: Sizes) -> list[int]:
    return [sizes, sizes] if isinstance(sizes, int) else list(sizes)
