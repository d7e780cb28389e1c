"""The loss of sequences without an alignment, as a module."""

from __future__ import annotations

from flambeau.nn.functional.ctc import ctc_loss
from flambeau.nn.modules.loss import _Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


class CTCLoss(_Loss):
    """`ctc_loss` as a module."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """The loss of each sequence, or their mean or sum."""
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity)
