"""Functions at the top of PyTorch whose successors are in `nn.functional` and `linalg`; reductions are numbers there."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "cond",
    "conv_tbc",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "embedding_renorm_",
    "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
    "frobenius_norm",
    "hinge_embedding_loss",
    "instance_norm",
    "margin_ranking_loss",
    "norm_except_dim",
    "nuclear_norm",
    "poisson_nll_loss",
    "range",
    "triplet_margin_loss",
    "view_as_complex_copy",
    "view_as_real_copy",
    "vmap",
]
REDUCTIONS = ("none", "mean", "sum")


def _functional(name: str) -> Any:
    return getattr(flambeau.nn.functional, name)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """`nn.functional.cosine_similarity`."""
    return _functional("cosine_similarity")(x1, x2, dim, eps)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return _functional("cosine_embedding_loss")(input1, input2, target, margin=margin, reduction=REDUCTIONS[reduction])


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return _functional("hinge_embedding_loss")(input, target, margin=margin, reduction=REDUCTIONS[reduction])


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return _functional("margin_ranking_loss")(input1, input2, target, margin=margin, reduction=REDUCTIONS[reduction])


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return _functional("poisson_nll_loss")(input, target, log_input=log_input, full=full, eps=eps, reduction=REDUCTIONS[reduction])


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: int = 1
) -> Tensor:
    """`nn.functional.triplet_margin_loss`."""
    loss = _functional("triplet_margin_loss")
    return loss(anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap, reduction=REDUCTIONS[reduction])


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1, zero_infinity: bool = False
) -> Tensor:
    """`nn.functional.ctc_loss`."""
    return _functional("ctc_loss")(log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS[reduction], zero_infinity)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`nn.functional.conv_tbc`."""
    return _functional("conv_tbc")(input, weight, bias, pad)


def instance_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool
) -> Tensor:
    """`nn.functional.instance_norm`."""
    return _functional("instance_norm")(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows that `indices` name to a norm of at most `max_norm`."""
    rows = indices.reshape(-1).unique()
    chosen = weight.detach()[rows]
    norms = flambeau.linalg.vector_norm(chosen, norm_type, 1, True)
    scale = flambeau.where(norms > max_norm, max_norm / (norms + 1e-7), flambeau.ones_like(norms))
    with flambeau.no_grad():
        weight[rows] = chosen * scale
    return weight


def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of squares along dimensions, along all where none is given."""
    axes = [dim] if isinstance(dim, int) else list(dim)
    return flambeau.linalg.vector_norm(input, 2, axes or None, keepdim, out=out)


def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of the singular values."""
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    return flambeau.linalg.matrix_norm(input, "nuc", tuple(dim) if dim is not None else (-2, -1), keepdim, out=out)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm along all dimensions but one; of all elements for -1."""
    if dim == -1:
        return flambeau.linalg.vector_norm(v, pow)
    axes = [axis for axis in builtin_range(v.dim()) if axis != dim % v.dim()]
    return flambeau.linalg.vector_norm(v, pow, axes, True) if axes else v.abs()


builtin_range = range


def range(  # noqa: A001
    start: float = 0, end: float | None = None, step: float = 1, *, out: Tensor | None = None, dtype: Any = None, **options: Any
) -> Tensor:
    """The numbers from `start` to `end`, with both; `arange` is without the last. Deprecated, since Python's `range` differs."""
    import warnings

    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    first, last = (0, start) if end is None else (start, end)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((last - first) / step) + 1
    kind = dtype or (out.dtype if out is not None else flambeau.get_default_dtype())
    made = (flambeau.arange(count, dtype=flambeau.float64) * step + first).to(kind)
    return made.to(**options) if out is None and options.get("device") is not None else made if out is None else out.resize_(count).copy_(made)


def _rounded(x: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Tensor:
    class Rounded(flambeau.autograd.Function):
        """Rounds to a grid of integers; the gradient passes where the integer is in range."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            grid = (x / scale).round() + zero_point
            ctx.save_for_backward((grid >= low) & (grid <= high))
            return (grid.clamp(low, high) - zero_point) * scale

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * ctx.saved_tensors[0]

    return Rounded.apply(x)


def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """The elements, rounded to numbers that integers from `quant_min` to `quant_max` stand for."""
    return _rounded(input, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> Tensor:
    """The same with a scale and a zero point for each index of a dimension."""
    shape = [1] * input.dim()
    shape[axis] = -1
    return _rounded(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """What one of two functions gives, by a truth value."""
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    return (true_fn if bool(pred) else false_fn)(*operands)


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the real and imaginary parts."""
    found = flambeau.view_as_real(input).clone()
    return found if out is None else out.copy_(found)


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of pairs as complex numbers."""
    found = flambeau.view_as_complex(input).clone()
    return found if out is None else out.copy_(found)


def vmap(func: Any, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Any:
    """`func.vmap`."""
    return flambeau.func.vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)
