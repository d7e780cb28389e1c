"""torch.torch_version: the version, which compares with texts and tuples by its numbers."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TorchVersion"]


def _numbers(version: Any) -> tuple[tuple[int, ...], bool]:
    """The numbers of a release, and whether it is a final one."""
    if isinstance(version, (tuple, list)):
        return tuple(int(part) for part in version if str(part).isdigit()), True
    text = str(version).partition("+")[0]
    release = re.match(r"\d+(\.\d+)*", text)
    if release is None:
        raise ValueError(f"expected a version but got {version!r}")
    numbers = tuple(int(part) for part in release.group().split("."))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers, release.end() == len(text) or "post" in text


class TorchVersion(str):
    """A version as a text."""

    @property
    def major(self) -> int:
        """The first number."""
        return int(self.split(".")[0])

    @property
    def minor(self) -> int:
        """The second number."""
        return int(self.split(".")[1])

    def _compared(self, other: Any) -> int:
        left, right = _numbers(self), _numbers(other)
        if isinstance(other, (tuple, list)):
            right = _numbers(".".join(map(str, other)))
        return (left > right) - (left < right)

    def __lt__(self, other: Any) -> bool:
        return self._compared(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._compared(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._compared(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._compared(other) >= 0

    def __eq__(self, other: object) -> bool:
        try:
            return self._compared(other) == 0
        except ValueError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


# The release of PyTorch whose names and behaviour Flambeau has.
__version__ = TorchVersion("2.15.0")
