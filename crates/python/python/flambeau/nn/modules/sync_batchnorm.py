"""Batch normalisation over the batches of all processes, of which there is one."""

from __future__ import annotations

from flambeau.nn.modules.normalization import _BatchNorm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


class SyncBatchNorm(_BatchNorm):
    """Over each channel of a batch of two or more dimensions."""

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
