"""torch.testing.FileCheck: whether a text has lines in an order."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FileCheck:
    """Checks are added one by one, and run on a text: each begins where the one before has ended."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, Any, Any]] = []

    def _add(self, kind: str, text: str, more: Any = None) -> FileCheck:
        self._checks.append((kind, text, more))
        return self

    def check(self, text: str) -> FileCheck:
        """The text comes next, with anything before it."""
        return self._add("check", text)

    def check_not(self, text: str) -> FileCheck:
        """The text does not come before what the next check finds."""
        return self._add("not", text)

    def check_same(self, text: str) -> FileCheck:
        """The text comes on the same line."""
        return self._add("same", text)

    def check_next(self, text: str) -> FileCheck:
        """The text comes on the next line."""
        return self._add("next", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes that often, and not again if `exactly`."""
        return self._add("count", text, (count, exactly))

    def check_dag(self, text: str) -> FileCheck:
        """The text comes next; several of these may come in any order."""
        return self._add("dag", text)

    def check_regex(self, text: str) -> FileCheck:
        """Something that the regular expression fits comes next."""
        return self._add("regex", text)

    def run(self, test_file: str) -> None:
        """RuntimeError where a check fails."""
        at, absent, begin = 0, [], 0
        for number, (kind, text, more) in enumerate(self._checks):
            if kind == "not":
                absent.append(text)
                continue
            if kind != "dag" or number == 0 or self._checks[number - 1][0] != "dag":
                begin = at
            found, end = self._found(kind, text, more, test_file, begin if kind == "dag" else at)
            for missing in absent:
                if missing in test_file[at:found]:
                    raise RuntimeError(f'Expected to not find "{missing}" but found it')
            absent, at = [], max(at, end)
        for missing in absent:
            if missing in test_file[at:]:
                raise RuntimeError(f'Expected to not find "{missing}" but found it')

    @staticmethod
    def _found(kind: str, text: str, more: Any, content: str, at: int) -> tuple[int, int]:
        if kind == "regex":
            match = re.compile(text).search(content, at)
            if match is None:
                raise RuntimeError(f'Expected to find regex "{text}" but did not find it')
            return match.span()
        first = -1
        for _ in range(more[0] if kind == "count" else 1):
            found = content.find(text, at)
            between = content[at:found].count("\n")
            if found < 0 or (kind == "same" and between != 0) or (kind == "next" and between != 1):
                raise RuntimeError(f'Expected to find "{text}" but did not find it')
            first, at = (found if first < 0 else first), found + len(text)
        if kind == "count" and more[1] and text in content[at:]:
            raise RuntimeError(f'Expected to not find "{text}" but found it')
        return (at if first < 0 else first), at
