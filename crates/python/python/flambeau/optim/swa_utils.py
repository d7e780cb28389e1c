"""Averages of the parameters of a model over training: stochastic weight averaging (Izmailov et al., 2018) and others."""

from __future__ import annotations

import copy
import math

import flambeau
from flambeau.nn import Module
from flambeau.nn.modules.normalization import _BatchNorm
from flambeau.optim.lr_scheduler import LRScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim.optimizer import Optimizer

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function: the average decays, and the rest is the new value."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @flambeau.no_grad()
    def update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return decay * averaged + (1 - decay) * current

    return update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function: the mean of all values."""

    @flambeau.no_grad()
    def update(averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return averaged + (current - averaged) / (num_averaged + 1)

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """The same as `get_ema_avg_fn`, in place, for lists of tensors."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @flambeau.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        for mean, value in zip(averaged, current):
            mean.copy_(mean.lerp(value.to(mean.dtype), 1 - decay) if mean.is_floating_point() else value)

    return update


def get_swa_multi_avg_fn() -> Callable[..., Any]:
    """The same as `get_swa_avg_fn`, in place, for lists of tensors."""

    @flambeau.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        part = 1 / (float(num_averaged) + 1)
        for mean, value in zip(averaged, current):
            mean.copy_(mean.lerp(value.to(mean.dtype), part) if mean.is_floating_point() else mean + (value - mean) * part)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: `update_parameters(model)` adds a value."""

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", flambeau.tensor(0, dtype=flambeau.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averages(self, module: Module) -> list[Tensor]:
        return [*module.parameters(), *(module.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Module) -> None:
        """Takes the parameters of the model into the averages."""
        own = [x.detach() for x in self._averages(self.module)]
        given = [x.detach() for x in self._averages(model)]
        if int(self.n_averaged) == 0:
            for mean, value in zip(own, given, strict=True):
                mean.copy_(value)
        elif self.avg_fn is not None:
            for mean, value in zip(own, given, strict=True):
                mean.copy_(self.avg_fn(mean, value, self.n_averaged))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(own, given, self.n_averaged)
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers()):
                buffer.detach().copy_(value.detach())
        self.n_averaged += 1


@flambeau.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch normalisations anew, from one pass over the data."""
    norms = [part for part in model.modules() if isinstance(part, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the rate there is to `swa_lr` in `anneal_epochs` steps, and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"swa_lr must have the same length as optimizer.param_groups: got {len(rates)} and {len(groups)}")
        for rate, group in zip(rates, groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: float) -> float:
        """How much of the distance is done after a step."""
        share = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * share)) / 2 if self._anneal_strategy == "cos" else share

    def get_lr(self) -> list[float]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        # The rate where it began follows from the one before and how much of the distance was done.
        before, now = self._part(max(0.0, step - 1)), self._part(step)
        made = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            made.append(target * now + start * (1 - now))
        return made
