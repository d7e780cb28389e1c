"""Losses: how far an output is from what it should be."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn.functional.distance import broadcast, pairwise_distance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flambeau import Tensor

_nn = flambeau._nn
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def reduction_number(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """The number operators know a reduction by. The two flags are what PyTorch had before 1.0."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return REDUCTIONS[reduction]


def _reduced(loss: Tensor, reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> Tensor:
    number = reduction_number(reduction, size_average, reduce)
    return loss if number == 0 else loss.mean() if number == 1 else loss.sum()


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """A loss of each element, weighted; the mean is by the sum of the weights."""
    if weight is None:
        return _reduced(loss, reduction)
    if weight.shape != loss.shape:
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduced(loss, reduction)


def _warn_of_sizes(input: Tensor, target: Tensor) -> None:
    if not input.is_same_size(target):
        import warnings

        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def _of_difference(
    loss: Callable[..., Tensor],
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    number: int,
    *more: float,
) -> Tensor:
    """A loss of `x - y` by its operator, which knows the reduction but no weight."""
    if weight is not None:
        return _weighted(loss(input, target, 0, *more), weight, reduction)
    return loss(*broadcast(input, target), number, *more)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`(x - y)^2`."""
    _warn_of_sizes(input, target)
    number = reduction_number(reduction, size_average, reduce)
    return _of_difference(_nn.mse_loss, input, target, weight, reduction, number)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`|x - y|`."""
    _warn_of_sizes(input, target)
    number = reduction_number(reduction, size_average, reduce)
    return _of_difference(_nn.l1_loss, input, target, weight, reduction, number)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """A parabola up to `beta`, divided by it; a straight line beyond."""
    _warn_of_sizes(input, target)
    number = reduction_number(reduction, size_average, reduce)
    input, target = broadcast(input, target)
    return _nn.l1_loss(input, target, number) if beta == 0.0 else _nn.smooth_l1_loss(input, target, number, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """A parabola up to `delta`, a straight line beyond."""
    _warn_of_sizes(input, target)
    return _of_difference(_nn.huber_loss, input, target, weight, reduction, reduction_number(reduction), delta)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of the class that `target` numbers."""
    return _nn.nll_loss_nd(input, target, weight, reduction_number(reduction, size_average, reduce), ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss` of `log_softmax`; targets are numbers of classes, or a likelihood for each."""
    number = reduction_number(reduction, size_average, reduce)
    return _nn.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: None = None,
) -> Tensor:
    """`cross_entropy` of `linear(input, linear_weight, linear_bias)`, whose sizes are `[C, d1, ..., in]` of a weight and a target
    for each of the `d1, ...`. There are no options: the scores are made as a whole.
    """
    if options is not None:
        raise NotImplementedError("linear_cross_entropy: there are no options yet; scores are made as a whole")
    classes, width = tuple(linear_weight.shape[:-1]), input.shape[-1]
    _check_linear(input, linear_weight, linear_bias)
    flat = None if linear_bias is None else linear_bias.reshape(-1)
    scores = flambeau._nn.linear(input, linear_weight.reshape(-1, width), flat).reshape((*input.shape[:-1], *classes))
    if target.shape == scores.shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        scores, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _check_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if weight.ndim < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.ndim}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")
    if weight.ndim > 2 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}"
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-(y log x + (1 - y) log(1 - x))`."""
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    weight = None if weight is None else weight.expand(target.shape)
    return _nn.binary_cross_entropy(input, target, weight, reduction_number(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of `sigmoid(x)`, but exact for large `x`."""
    if target.shape != input.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    number = reduction_number(reduction, size_average, reduce)
    return flambeau.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """`y (log y - x)`, where `x` is a log likelihood; `batchmean` is what mathematics means by it."""
    if reduction == "batchmean":
        return flambeau.kl_div(input, target, 2, log_target=log_target) / input.shape[0]
    return flambeau.kl_div(input, target, reduction_number(reduction, size_average, reduce), log_target=log_target)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Of counts; `full` adds Stirling's estimate of `log y!` where `y` is above 1."""
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return _reduced(loss, reduction, size_average, reduce)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Of normal numbers with mean `input` and variance `var`, which counts as no less than `eps`."""
    if not isinstance(var, flambeau.Tensor):
        var = flambeau.full_like(input, var)
    if (var < 0).any().item():
        raise ValueError("var has negative entry/entries")
    if var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    elif var.shape != input.shape:
        apart = [(have, own) for have, own in zip(input.shape, var.shape) if have != own]
        if var.ndim != input.ndim or len(apart) != 1 or apart[0][1] != 1:
            raise ValueError("var is of incorrect size")
    # As in PyTorch no gradient sees the lower bound.
    var = var + (var.detach().clamp_min(eps) - var.detach())
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`x` where `y` is 1, and how much it is short of the margin where `y` is -1."""
    far = flambeau.where(target != 1, (margin - input).clamp_min(0), 0)
    loss = far + flambeau.where(target != -1, input, 0)
    return _reduced(loss, reduction, size_average, reduce)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How much `x1 - x2` (`y` is 1) or `x2 - x1` (`y` is -1) is short of the margin."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.shape}, "
            f"input2: {input2.shape}, target: {target.shape} "
        )
    loss = (-target * (input1 - input2) + float(margin)).clamp_min(0)
    return _reduced(loss, reduction, size_average, reduce)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`log(1 + e^(-x y))`, where `y` is 1 or -1."""
    loss = (-target * input).exp().log1p()
    return _reduced(loss, reduction, size_average, reduce)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`1 - cos` where `y` is 1, and by how much the cosine is above the margin where `y` is -1."""
    # The bound is PyTorch's: added to each square, so that whole numbers have a cosine too.
    product, first, second = ((a * b).sum(-1) for a, b in ((input1, input2), (input1, input1), (input2, input2)))
    cosine = product / ((first + 1e-12) * (second + 1e-12)).sqrt()
    zero = flambeau.zeros_like(cosine)
    loss = flambeau.where(target == 1, 1 - cosine, zero) + flambeau.where(target == -1, (cosine - margin).clamp_min(0), zero)
    return _reduced(loss, reduction, size_average, reduce)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`binary_cross_entropy_with_logits`, a mean over classes."""
    loss = -(target * _nn.log_sigmoid(input) + (1 - target) * _nn.log_sigmoid(-input))
    loss = (loss if weight is None else loss * weight).sum(input.ndim - 1) / input.shape[-1]
    return _reduced(loss, reduction, size_average, reduce)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """By how much the negative is not farther than the positive and the margin; `swap`: Balntas et al., 2016."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = flambeau.minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = (near - far + margin).clamp_min(0)
    return _reduced(loss, reduction, size_average, reduce)
