"""The base of all schedulers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.optim.optimizer import Optimizer


class LRScheduler:
    """Sets the rate of every group at each `step()`; a subclass says by `get_lr` what it is after `last_epoch` steps."""

    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in param_groups"
                    f"[{index}] when resuming scheduler with last_epoch >= 0.\n"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """The step that sets the rates at first."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rate of each group now, from those of the step before."""
        raise NotImplementedError

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _times(self, factor: float) -> list[float]:
        return [rate * factor for rate in self._rates()]

    def get_last_lr(self) -> list[float]:
        """The rates as they were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one step, or to step `epoch`."""
        if self._step_count == 1 and getattr(self.optimizer, "_steps_taken", 1) == 0 and _counts_steps(self.optimizer):
            import warnings

            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the learning rate "
                "schedule is skipped. Call them in the opposite order.",
                stacklevel=2,
            )
        self._step_count += 1
        self._go_to(epoch)

    def _go_to(self, epoch: int | None) -> None:
        """Sets the rates of the next step, or of step `epoch`."""
        closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = self.get_lr() if epoch is None else closed_form()
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the state that `state_dict` returned."""
        self.__dict__.update(state_dict)


def _counts_steps(optimizer: Optimizer) -> bool:
    """Whether the optimiser's class has the `step` that counts, and not one of its own."""
    from flambeau.optim.optimizer import Optimizer as Base

    return type(optimizer).step is Base.step
