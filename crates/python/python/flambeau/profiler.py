"""What took how long: a profiler of operators, backward nodes, named ranges and memory, on all threads.

>>> import flambeau as fb
>>> from flambeau.profiler import profile, record_function
>>> x = fb.ones(64, 64, requires_grad=True)
>>> with profile(record_shapes=True) as prof:
...     with record_function("forward"):
...         loss = (x @ x).sum()
...     loss.backward()
>>> [average.count for average in prof.key_averages() if average.key in ("mm", "forward")]
[3, 1]
>>> print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=3))  # doctest: +SKIP
"""

from __future__ import annotations

from contextlib import ContextDecorator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from . import _flambeau

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from types import TracebackType

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "ProfilerActivity", "profile", "record_function"]


class ProfilerActivity(Enum):
    """What can be watched. There is no other device yet."""

    CPU = 0


@dataclass(frozen=True)
class FunctionEvent:
    """One call of an operator, one backward node, or one named range. Times are in microseconds since the profiler began."""

    name: str
    #: `operator`, `backward` or `range`.
    kind: str
    #: A number of the thread's own.
    thread: int
    start: float
    end: float
    #: The event inside which it began.
    cpu_parent: FunctionEvent | None
    #: Of the tensors it got, if shapes were recorded.
    input_shapes: list[list[int]] | None
    #: Of a backward node its number; of an operator that of the first node recorded while it ran.
    sequence_nr: int | None
    #: Bytes allocated less bytes freed, without the events inside it.
    self_cpu_memory_usage: int

    @property
    def cpu_time(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True)
class FunctionEventAvg:
    """All events of one name, or of one name and one list of shapes. Times are in microseconds."""

    key: str
    kind: str
    input_shapes: list[list[int]] | None
    count: int
    #: With all that happened inside them; one inside another of them is not counted twice.
    cpu_time_total: float
    #: Less what was recorded inside them.
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int

    @property
    def cpu_time(self) -> float:
        """The mean of one."""
        return self.cpu_time_total / self.count


class EventList(list[FunctionEventAvg]):
    """Averages, those with the most time by themselves first."""

    def __init__(self, profile: _flambeau._Profile, by_shapes: bool) -> None:
        rows = profile.averages(by_shapes)
        super().__init__(
            FunctionEventAvg(name, kind, shapes, count, total / 1e3, own / 1e3, total_bytes, own_bytes)
            for name, kind, shapes, count, total, own, total_bytes, own_bytes in rows
        )
        self._profile = profile
        self._by_shapes = by_shapes

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events by themselves, in microseconds."""
        return sum(average.self_cpu_time_total for average in self)

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Sorted by `self_cpu_time_total`, `cpu_time_total`, `cpu_time`, `count`, `self_cpu_memory_usage` or `cpu_memory_usage`."""
        return self._profile.table(self._by_shapes, sort_by or "self_cpu_time_total", max(row_limit, 0))


class profile:
    """Records what all threads do inside it, or from `start` to `stop`. Profilers do not nest.

    Off, a profiler costs nothing. On, an event takes about a tenth of a microsecond, and `record_shapes` and
    `profile_memory` somewhat more. Operators have the names of their schemas (`add.Tensor`), without `aten::`.
    """

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
    ) -> None:
        unknown = set(activities or ()) - {ProfilerActivity.CPU}
        if unknown:
            raise ValueError(f"expected activities among {list(ProfilerActivity)} but got {unknown}")
        self._options = (record_shapes, profile_memory)
        self._running = False
        self._profile: _flambeau._Profile | None = None

    def start(self) -> None:
        """Begins to record."""
        _flambeau._start_profiler(*self._options)
        self._running = True

    def stop(self) -> None:
        """Ends recording; events that are still running get this end time."""
        if self._running:
            self._running = False
            self._profile = _flambeau._stop_profiler()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _seen(self) -> _flambeau._Profile:
        if self._profile is None:
            raise RuntimeError("profile: it has not been started and stopped")
        return self._profile

    def events(self) -> list[FunctionEvent]:
        """Each event, thread by thread, in the order in which they began."""
        events: list[FunctionEvent] = []
        first: dict[int, int] = {}
        for thread, name, kind, start, end, parent, shapes, sequence, size in self._seen().events():
            offset = first.setdefault(thread, len(events))
            around = None if parent is None else events[offset + parent]
            events.append(FunctionEvent(name, kind, thread, start / 1e3, end / 1e3, around, shapes, sequence, size))
        return events

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """The events by name, and by the shapes of their inputs if so wished."""
        return EventList(self._seen(), group_by_input_shape)

    def export_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Writes what Chrome (`chrome://tracing`) and Perfetto read."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._seen().chrome_trace())

    @property
    def peak_memory(self) -> int:
        """The most bytes that were in tensors at one moment; it takes `profile_memory`."""
        return self._seen().peak_bytes()


class record_function(ContextDecorator):
    """Gives a part of a program a name, as a context manager or around a function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._depths: list[int] = []

    def _recreate_cm(self) -> record_function:
        """A range for each call of a decorated function: calls may overlap, in other threads."""
        return record_function(self.name)

    def __enter__(self) -> record_function:
        self._depths.append(_flambeau._enter_range(self.name))
        return self

    def __exit__(self, *raised: object) -> None:
        _flambeau._leave_range(self._depths.pop())
