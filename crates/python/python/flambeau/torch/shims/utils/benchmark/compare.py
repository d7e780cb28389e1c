"""A table of measurements: a row for each statement, a column for each description."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from flambeau.torch.shims.utils.benchmark.measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

if TYPE_CHECKING:
    from collections.abc import Iterable


class Colorize(Enum):
    """Which numbers are coloured; tables have no colours here."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Measurements side by side."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trimmed = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Writes only digits that are known."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Changes nothing: tables have no colours."""

    def highlight_warnings(self) -> None:
        """Changes nothing: tables have no colours."""

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        titles = ordered_unique(result.task_spec.label or result.task_spec.stmt for result in merged)
        return "\n".join(self._table(title, [r for r in merged if (r.task_spec.label or r.task_spec.stmt) == title]) for title in titles)

    def _table(self, title: str, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(result.median for result in results))
        columns = ordered_unique(result.task_spec.description or "" for result in results)
        rows = ordered_unique((result.task_spec.num_threads, result.task_spec.env or "", result.as_row_name) for result in results)
        cells = {(r.task_spec.num_threads, r.task_spec.env or "", r.as_row_name, r.task_spec.description or ""): r for r in results}
        lines, width = [], max(len(name) for _, _, name in rows) + 6
        widths = [max(len(column), 10) for column in columns]
        head = " " * width + "  |  " + "  |  ".join(column.center(size) for column, size in zip(columns, widths))
        threads = None
        for count, env, name in rows:
            if count != threads:
                threads = count
                lines.append(f"{count} threads: ".ljust(len(head), "-"))
            texts = []
            for column, size in zip(columns, widths):
                found = cells.get((count, env, name, column))
                texts.append((self._number(found, scale) if found is not None else "").rjust(size))
            lines.append(f"      {name}".ljust(width) + "  |  " + "  |  ".join(texts))
        border = f"[{f' {title} '.center(max(len(head) - 2, len(title)), '-')}]"
        return "\n".join([border, head, *lines, "", f"Times are in {unit_to_english(unit)}s ({unit})."])

    def _number(self, found: Measurement, scale: float) -> str:
        value = found.median / scale
        return f"{trim_sigfig(value, found.significant_figures):g}" if self._trimmed else f"{value:.1f}"

    def print(self) -> None:
        """Prints the table."""
        print(str(self))
