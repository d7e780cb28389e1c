"""`GradScaler`: losses are multiplied by a factor, so that small gradients do not become 0 in half precision."""

from __future__ import annotations

from enum import Enum

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.optim import Optimizer


class OptState(Enum):
    """What has been done with an optimiser since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, takes the scale out of gradients, and skips steps whose gradients are infinite or NaN.

    The scale is multiplied by `backoff_factor` after a step that was skipped, and by `growth_factor` after `growth_interval` others.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and growth_factor <= 1.0:
            raise ValueError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise ValueError("The backoff factor must be < 1.0.")
        if enabled and device != "cpu":
            import warnings

            warnings.warn(f"GradScaler is enabled for {device}, but {device} is not available.  Disabling.", stacklevel=2)
            enabled = False
        self._device, self._enabled = device, enabled
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._states: dict[int, tuple[OptState, bool]] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            made = [self.scale(x) for x in outputs]
            return type(outputs)(*made) if hasattr(outputs, "_fields") else type(outputs)(made)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Takes the scale out of the gradients of the optimiser's parameters, once before each step."""
        if not self._enabled:
            return
        state, _ = self._states.get(id(optimizer), (OptState.READY, False))
        if state is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        self._states[id(optimizer)] = OptState.UNSCALED, self._unscale(optimizer)

    def _unscale(self, optimizer: Optimizer) -> bool:
        """Whether a gradient is infinite or NaN."""
        found = False
        with flambeau.no_grad():
            grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            for grad in grads:
                if grad.dtype is flambeau.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                grad.mul_(1.0 / self._scale)
                found = found or not bool((grad._values() if grad.is_sparse else grad).isfinite().all())
        return found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)`, unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        state, _ = self._states.get(id(optimizer), (OptState.READY, False))
        if state is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state is OptState.READY:
            self.unscale_(optimizer)
        found = self._states[id(optimizer)][1]
        self._states[id(optimizer)] = OptState.STEPPED, found
        return None if found else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Sets the scale for the next step."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._states:
            raise RuntimeError("No inf checks were recorded prior to update.")
        elif any(found for _, found in self._states.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        self._states.clear()

    def get_scale(self) -> float:
        """The scale; 1 if scaling is disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets by what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale is multiplied after a step that was skipped."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets by what the scale is multiplied after a step that was skipped."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps the scale grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, and what it depends on."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._scale, self._growth_tracker = float(state_dict["scale"]), state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
