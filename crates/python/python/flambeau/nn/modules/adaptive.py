"""A softmax over many classes in clusters by their frequency (Grave et al., 2017)."""

from __future__ import annotations

from collections import namedtuple

import flambeau
from flambeau.nn import functional as F
from flambeau.nn.module import Module
from flambeau.nn.modules.container import ModuleList, Sequential
from flambeau.nn.modules.linear import Linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes have a score each; others share a cluster, whose scores come from fewer features."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if cutoffs != sorted(set(map(int, cutoffs))) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between "
                "1 and n_classes-1"
            )
        where = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for number, (begin, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inner = int(in_features // div_value ** (number + 1))
            self.tail.append(Sequential(Linear(in_features, inner, bias=False, **where), Linear(inner, end - begin, bias=False, **where)))

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        self.head.reset_parameters()
        for part in self.tail.modules():
            if isinstance(part, Linear):
                part.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log probabilities of the targets, and the mean of their negatives."""
        is_single = target_.dim() == 0
        if (target_.dim() == 1 and input_.dim() != 2) or (is_single and input_.dim() != 1) or target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, with an input of one dimension more")
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if is_single else (input_, target_)
        if target.numel() and not (0 <= int(target.min()) and int(target.max()) < self.n_classes):
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(target.min())}, {int(target.max())}] were found. ")
        if input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        output = self._log_probs(input).gather(1, target.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.squeeze(0) if is_single else output, (-output).mean())

    def _log_probs(self, input: Tensor) -> Tensor:
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, self.shortlist_size + number].unsqueeze(1))
        return flambeau.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes."""
        return self._log_probs(input)

    def predict(self, input: Tensor) -> Tensor:
        """The class of the largest probability."""
        return self._log_probs(input).argmax(1)
