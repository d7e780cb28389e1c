"""Margin losses, as modules."""

from __future__ import annotations

from flambeau.nn import functional as F
from flambeau.nn.modules.linear import PairwiseDistance
from flambeau.nn.modules.loss import _Loss, _WeightedLoss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flambeau import Tensor


class MultiMarginLoss(_WeightedLoss):
    """By how much the scores of other classes violate the margin to the right one, to the power `p`."""

    def __init__(
        self,
        p: float = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.ndim}D instead")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        more = {"p": self.p, "margin": self.margin, "weight": self.weight}
        return F.multi_margin_loss(input, target, **more, reduction=self.reduction)  # type: ignore[arg-type]


class MultiLabelMarginLoss(_Loss):
    """The same for several right classes, which the target lists before its first -1."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """By how much the negative is not farther than the positive and the margin, by a distance of one's own."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead")
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        more = {"distance_function": self.distance_function, "margin": self.margin, "swap": self.swap}
        return F.triplet_margin_with_distance_loss(anchor, positive, negative, **more, reduction=self.reduction)  # type: ignore[arg-type]
