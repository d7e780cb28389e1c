"""Several schedulers as one."""

from __future__ import annotations

from bisect import bisect_right

from flambeau.optim.lr_scheduler.base import LRScheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau.optim.optimizer import Optimizer


class SequentialLR(LRScheduler):
    """One scheduler after another, changing at the milestones."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to chain, but got no scheduler.")
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise ValueError(f"{type(self).__name__} expects all schedulers to belong to the same optimizer")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        # All schedulers set the rate when they were made: restore the initial one, and take the first step of the active scheduler.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        _undo(self._schedulers)
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _initial_step(self) -> None:
        self.step()

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one step of the active scheduler."""
        self.last_epoch += 1
        active = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[active]
        if active > 0 and self._milestones[active - 1] == self.last_epoch:
            scheduler._go_to(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        state = {name: v for name, v in self.__dict__.items() if name not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        for scheduler, saved in zip(self._schedulers, state.pop("_schedulers")):
            scheduler.load_state_dict(saved)
        self.__dict__.update(state)


def _undo(schedulers: Sequence[LRScheduler]) -> None:
    """Takes back the step that schedulers did when they were made."""
    for scheduler in schedulers:
        if isinstance(scheduler, SequentialLR):
            _undo(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1


class ChainedScheduler(SequentialLR):
    """Several schedulers at once, each of which changes what the one before has set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise ValueError(f"{type(self).__name__} expects all schedulers to belong to the same optimizer")
        self.optimizer, self._schedulers = optimizer, list(schedulers)
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one step of each."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]
