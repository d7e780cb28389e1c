"""Margin losses: between classes, or between similar and dissimilar samples."""

from __future__ import annotations

import flambeau
from flambeau.nn.functional.distance import pairwise_distance
from flambeau.nn.functional.loss import reduction_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flambeau import Tensor


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """By how much the scores of other classes violate the margin to the right one, to the power `p`."""
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    return flambeau._nn.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The same for several right classes, which `target` lists before its first -1."""
    return flambeau._nn.multilabel_margin_loss(input, target, reduction_number(reduction, size_average, reduce))


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """By how much the negative is not farther than the positive and the margin, by a distance of one's own."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = flambeau.minimum(far, distance(positive, negative))
    loss = flambeau.clamp_min(margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
