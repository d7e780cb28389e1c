"""Times a statement, as Python's `timeit` does, with a given number of threads."""

from __future__ import annotations

import timeit
from enum import Enum
from typing import TYPE_CHECKING, Any, Callable

from flambeau.torch.placeholders import refuse
from flambeau.torch.shims.utils.benchmark.measurement import Measurement, TaskSpec, set_torch_threads

if TYPE_CHECKING:
    from flambeau.torch.shims.utils.benchmark.measurement import TaskSpec as Spec

timer = timeit.default_timer


class Language(Enum):
    """The language of a statement; only Python runs here."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Runs a statement again and again."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise refuse("torch.utils.benchmark.Timer of C++")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`.")
        import torch  # type: ignore[import-not-found]

        stmt, setup = _without_margin(stmt), _without_margin(setup)
        self._globals = {**(globals or {}), "torch": torch}
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        # Clocks have a resolution, so that a short run may take no time.
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of `number` executions, after some that are not measured."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def _block_size(self, min_run_time: float) -> int:
        """How many executions take a thousandth of the time, so that reading the clock costs little."""
        number = 1
        overhead = sorted(self._timeit(0) for _ in range(5))[2]
        while True:
            taken = self._timeit(number)
            if overhead / taken <= 1e-4 and taken >= min_run_time / 1000 or taken > min_run_time:
                return number
            number *= 10

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """NotImplementedError, as in PyTorch: `timeit` and `blocked_autorange` decide themselves."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> None:
        """NotImplementedError, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Runs that take `min_run_time` seconds together."""
        return self._measured(min_run_time, min_run_time, lambda found: True, callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0, callback: Callable[[int, float], Any] | None = None
    ) -> Measurement:
        """Runs until the quartiles are closer to each other than `threshold` times the median."""
        return self._measured(min_run_time, max_run_time, lambda found: found.iqr / found.median < threshold, callback)

    def _measured(self, shortest: float, longest: float, is_enough: Callable[[Measurement], bool], callback: Any) -> Measurement:
        with set_torch_threads(self._task_spec.num_threads):
            number, times, total = self._block_size(shortest), [], 0.0
            while True:
                taken = self._timeit(number)
                times.append(taken)
                total += taken
                if callback is not None:
                    callback(number, taken)
                if total >= longest or (total >= shortest and is_enough(Measurement(number, times, self._task_spec))):
                    return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, number: int = 100, **options: Any) -> Any:
        """NotImplementedError: instructions are not counted."""
        raise refuse("torch.utils.benchmark.Timer.collect_callgrind")


def _without_margin(text: str) -> str:
    import textwrap

    return textwrap.dedent(text).strip("\n").rstrip()
