"""Rates that rise as well as fall."""

from __future__ import annotations

import math

from flambeau.optim.lr_scheduler.base import LRScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.optim.optimizer import Optimizer


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a wave down to `eta_min`, again and again, each `T_mult` times as long: Loshchilov and Hutter, 2017."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        wave = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * wave / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes on by one step, or to step `epoch`, which may lie between whole ones."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._find(epoch)
        super().step(math.floor(epoch))

    def _find(self, epoch: float) -> None:
        """Which wave it is, and how far into it; steps may be in between whole ones."""
        if self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
            return
        wave = 0 if epoch < self.T_0 else int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**wave - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**wave


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _linear(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


class OneCycleLR(LRScheduler):
    """Up to `max_lr`, then down far below where it began, with the momentum in the opposite direction: Smith and Topin, 2019."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, self._for_groups("max_lr", max_lr)):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        self.use_beta1 = "betas" in optimizer.defaults
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and not self.use_beta1:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            lows, highs = self._for_groups("base_momentum", base_momentum), self._for_groups("max_momentum", max_momentum)
            if last_epoch == -1:
                for group, low, high in zip(optimizer.param_groups, lows, highs):
                    self._set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _for_groups(self, name: str, value: float | list[float]) -> list[float]:
        groups = len(self.optimizer.param_groups)
        values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
        if len(values) != groups:
            raise ValueError(f"{name} must have the same length as optimizer.param_groups, expected {groups} but got {len(values)}")
        return values

    def _set_momentum(self, group: dict[str, Any], momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        anneal = _cosine if self._anneal_func_type == "cos" else _linear
        ends = [phase[0] for phase in self._schedule_phases]
        phase = next((index for index, end in enumerate(ends) if step <= end), len(ends) - 1)
        end, (rate_from, rate_to), (momentum_from, momentum_to) = self._schedule_phases[phase]
        begin = ends[phase - 1] if phase > 0 else 0.0
        part = (step - begin) / (end - begin)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._set_momentum(group, anneal(group[momentum_from], group[momentum_to], part))
        return [anneal(group[rate_from], group[rate_to], part) for group in self.optimizer.param_groups]


Phase = tuple[float, tuple[str, str], tuple[str, str]]


def _phases(total: int, part: float, three: bool) -> list[Phase]:
    """Each phase: its last step, and between which values of a group rate and momentum go."""
    high_low, low_high = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    up: Phase = (float(part * total) - 1, ("initial_lr", "max_lr"), high_low)
    if not three:
        return [up, (total - 1, ("max_lr", "min_lr"), low_high)]
    down: Phase = (float(2 * part * total) - 2, ("max_lr", "initial_lr"), low_high)
    return [up, down, (total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))]


def _total(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    given = {"total_steps": total} if total is not None else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    if None in given.values():
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    product = 1
    for name, count in given.items():
        if not isinstance(count, int) or count <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {count}")
        product *= count
    return product


class CyclicLR(LRScheduler):
    """Between `base_lr` and `max_lr`, up in `step_size_up` steps and down in `step_size_down`: Smith, 2017.

    In the mode "triangular2" each cycle is half as high as the one before, in "exp_range" it is scaled by `gamma**step`; `scale_fn`
    gives the scale by the number of the cycle, or of the step if `scale_mode` is "iterations".
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Any = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        for group, rate in zip(groups, _for_groups(base_lr, len(groups), "base_lr")):
            if last_epoch == -1:
                group["lr"] = rate
        self.max_lrs = _for_groups(max_lr, len(groups), "max_lr")
        down = float(step_size_up if step_size_down is None else step_size_down)
        self.total_size = step_size_up + down
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._init_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = _for_groups(base_lr, len(groups), "base_lr")

    def _init_momentum(self, optimizer: Optimizer, low: Any, high: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        groups = optimizer.param_groups
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = _for_groups(low, len(groups), "base_momentum")
        self.max_momentums = _for_groups(high, len(groups), "max_momentum")
        if last_epoch == -1:
            for group, momentum in zip(groups, self.max_momentums):
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, by its number or by the step."""
        if self._scale_fn is not None:
            return float(self._scale_fn(x))
        return {"triangular": 1.0, "triangular2": 1 / 2.0 ** (x - 1), "exp_range": self.gamma**x}[self.mode]

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        cycle = math.floor(1 + step / self.total_size)
        part = 1.0 + step / self.total_size - cycle
        height = part / self.step_ratio if part <= self.step_ratio else (part - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else step)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                momentum = high - (high - low) * height * scale
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [base + (high - base) * height * scale for base, high in zip(self.base_lrs, self.max_lrs)]


def _for_groups(value: Any, groups: int, name: str) -> list[float]:
    values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(values) != groups:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups, expected {groups} but got {len(values)}")
    return values
