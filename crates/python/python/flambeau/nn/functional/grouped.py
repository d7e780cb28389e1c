"""Products of matrices in groups, and the convolution of a sequence whose channels are last."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: flambeau.dtype | None = None
) -> Tensor:
    """Products of the groups of two operands: matrices of a stack, or parts of a matrix that end at `offs`."""
    dims = mat_a.dim(), mat_b.dim()
    if any(dim not in (2, 3) for dim in dims):
        raise RuntimeError(f"grouped_mm: mat_a and mat_b have to be 2 or 3 dimensional, but got {dims[0]} and {dims[1]}")
    if bias is not None:
        raise NotImplementedError("grouped_mm: a bias is not implemented; add it to the result")
    if dims == (3, 3):
        found = mat_a @ mat_b
    elif offs is None:
        raise RuntimeError("grouped_mm: offs is required where an operand has 2 dimensions")
    else:
        ends = offs.tolist()
        found = _parts(mat_a, mat_b, list(zip([0, *ends[:-1]], ends)))
    return found if out_dtype is None else found.to(out_dtype)


def _parts(mat_a: Tensor, mat_b: Tensor, parts: list[tuple[int, int]]) -> Tensor:
    if mat_a.dim() == 2 and mat_b.dim() == 3:
        rows = [mat_a[begin:end] @ mat_b[group] for group, (begin, end) in enumerate(parts)]
        rest = mat_a.shape[0] - (parts[-1][1] if parts else 0)
        return flambeau.cat([*rows, mat_a.new_zeros((rest, mat_b.shape[-1]))])
    if mat_a.dim() == 3:
        columns = [mat_a[group] @ mat_b[:, begin:end] for group, (begin, end) in enumerate(parts)]
        return flambeau.cat(columns, 1)
    return flambeau.stack([mat_a[:, begin:end] @ mat_b[begin:end] for begin, end in parts])


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution along the first dimension of (steps, batch, channels) with a weight of (steps, channels in, channels out)."""
    if input.dim() != 3 or weight.dim() != 3 or bias.dim() != 1:
        raise RuntimeError("conv_tbc: input and weight must have 3 dimensions: time, batch, channels; and bias must have 1")
    found = flambeau.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return found.permute(2, 0, 1)
