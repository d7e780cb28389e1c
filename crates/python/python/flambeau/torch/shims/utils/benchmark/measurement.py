"""The times of a statement: what was measured, its median and spread, and how it is written."""

from __future__ import annotations

import math
import statistics
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import flambeau

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
# Spreads above which a measurement is not to be trusted, and not at all.
HIGH, SEVERE = 0.1, 0.25


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time is written, and how many seconds it has."""
    for seconds, unit in UNITS:
        if t >= seconds:
            return unit, seconds
    return "ns", 1e-9


def unit_to_english(u: str) -> str:
    """The name of a unit."""
    return ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """A number, rounded to `n` digits."""
    if x == 0 or not math.isfinite(x):
        return x
    magnitude = math.ceil(math.log10(abs(x)))
    scale = 10.0 ** (magnitude - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements, each once, in order."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Inside it, operators use `n` threads."""
    before = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(n)
        yield
    finally:
        flambeau.set_num_threads(before)


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What a measurement is of."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n  " + self.stmt.replace("\n", "\n  ")

    def setup_str(self) -> str:
        """The preparation as text."""
        return "" if self.setup in ("", "pass") else f"setup:\n  {self.setup}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """All of it as text."""
        lines = [self.title, self.description or "", self.setup_str()]
        return "\n".join([*(line for line in lines if line), f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"])


@dataclass(init=True, repr=False)
class Measurement:
    """The times of the runs of a statement, each of `number_per_run` executions."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None
    _sorted: list[float] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._sorted = sorted(self.times)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of an execution, in each run."""
        return [time / self.number_per_run for time in self.raw_times]

    def _quantile(self, share: float) -> float:
        self._check()
        return float(statistics.quantiles(self._sorted, n=4, method="inclusive")[round(share * 4) - 1]) if len(self._sorted) > 1 else self._sorted[0]

    def _check(self) -> None:
        if not self._sorted:
            raise RuntimeError("Measurement must have at least one time")

    @property
    def median(self) -> float:
        """The median."""
        self._check()
        return statistics.median(self._sorted)

    @property
    def mean(self) -> float:
        """The mean."""
        self._check()
        return statistics.fmean(self._sorted)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median are known."""
        error = max(self.iqr / max(math.sqrt(len(self._sorted)), 1) * 1.6, self.median / 10**5, 1e-10)
        return max(int(math.floor(-math.log10(error / self.median) + 0.5)), 1) if self.median > 0 else 1

    @property
    def has_warnings(self) -> bool:
        """Whether the times are far from each other."""
        return self.median > 0 and self.iqr / self.median >= HIGH

    @property
    def title(self) -> str:
        """What was measured."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Under which conditions."""
        return self.task_spec.env or ""

    @property
    def as_row_name(self) -> str:
        """The name of its row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Those of the same statement as one."""
        found: dict[TaskSpec, list[Measurement]] = {}
        for measurement in measurements:
            found.setdefault(measurement.task_spec, []).append(measurement)
        return [Measurement(1, [time for one in same for time in one.times], spec, None) for spec, same in found.items()]

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        lines = [f"{super().__repr__().split(' object')[0]} object>", self.task_spec.summarize()]
        if len(self._sorted) == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}\n  1 measurement, {self.number_per_run} runs , {self._threads()}")
        else:
            lines.append(f"  Median: {self.median / scale:.2f} {unit}\n  IQR:    {self.iqr / scale:.2f} {unit}")
            lines.append(f"  {len(self._sorted)} measurements, {self.number_per_run} runs per measurement, {self._threads()}")
        if self.has_warnings:
            kind = "severe" if self.iqr / self.median >= SEVERE else "high"
            lines.append(f"  WARNING: Interquartile range is {self.iqr / self.median:.1%} of the median measurement, a {kind} variation")
        return "\n".join(lines)

    def _threads(self) -> str:
        return f"{self.task_spec.num_threads} thread{'s' if self.task_spec.num_threads > 1 else ''}"
