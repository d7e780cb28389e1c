"""Batch normalisation over the batches of all processes."""

from __future__ import annotations

import flambeau
from flambeau.nn.modules.normalization import _BatchNorm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


class SyncBatchNorm(_BatchNorm):
    """Over each channel of a batch of two or more dimensions, by the statistics of the batches of all ranks of a group.

    All ranks run it, and the backward pass, in which they meet again. Without a group it is batch normalisation. The variance is that of
    differences from the mean, so that channels whose mean is large lose no digits.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        from flambeau.distributed.groups import group_of, is_initialized

        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        if not by_batch or not is_initialized() or group_of(self.process_group).size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        return self._of_all_ranks(input, group_of(self.process_group))

    def _of_all_ranks(self, input: Tensor, group: Any) -> Tensor:
        from flambeau.distributed.collectives import all_reduce
        from flambeau.distributed.nn.functional import all_reduce as sum_over_ranks

        dims = [dim for dim in range(input.ndim) if dim != 1]
        shape = [1, self.num_features] + [1] * (input.ndim - 2)
        number = flambeau.tensor([input.numel() // max(self.num_features, 1)], dtype=flambeau.float64)
        all_reduce(number, group=group)
        count = number.item()
        if count <= 1:
            raise ValueError("Expected more than 1 value per channel when training, on all ranks together")
        mean = sum_over_ranks(input.sum(dims, keepdim=True), group=group) / count
        centred = input - mean
        var = sum_over_ranks((centred * centred).sum(dims, keepdim=True), group=group) / count
        if self.training and self.track_running_stats:
            self._update(mean.detach().flatten(), var.detach().flatten() * (count / (count - 1)))
        result = centred * (var + self.eps).rsqrt()
        if self.weight is not None:
            result = result * self.weight.view(shape)
        return result if self.bias is None else result + self.bias.view(shape)

    @flambeau.no_grad()
    def _update(self, mean: Tensor, var: Tensor) -> None:
        """Moves the running statistics."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        factor = 1.0 / float(self.num_batches_tracked.item()) if self.momentum is None else self.momentum
        for running, new in ((self.running_mean, mean), (self.running_var, var)):
            running.mul_(1 - factor).add_(new.to(running.dtype), alpha=factor)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Replaces the batch normalisations of a module, with their parameters and statistics."""
        made = module
        if isinstance(module, _BatchNorm):
            options = (module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats)
            made = cls(*options, process_group)
            made.training = module.training
            for members, own in ((module._parameters, made._parameters), (module._buffers, made._buffers)):
                own.update(members)  # type: ignore[arg-type]
        for name, part in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(part, process_group))
        return made
