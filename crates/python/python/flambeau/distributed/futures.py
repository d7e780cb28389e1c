"""Futures of calls that run in the background."""

from __future__ import annotations

from flambeau import _flambeau
from flambeau.futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["WorkFuture"]


class WorkFuture(Future):
    """The tensors of a call, which have their results when it has completed; `wait` waits for that.

    No thread waits for it meanwhile, so the functions of `then` run in the `wait` of the future that `then` returns.
    """

    def __init__(self, work: _flambeau.Work, tensors: list[Any]) -> None:
        super().__init__()
        self._work, self._tensors = work, tensors

    def done(self) -> bool:
        """Whether the call has completed."""
        return self._work.is_completed()

    def wait(self) -> Any:
        """The tensors, when the call has completed."""
        self._work.wait()
        return self._tensors

    def value(self) -> Any:
        """The tensors of a call that has completed."""
        if not self.done():
            raise RuntimeError("value() of a Future that is not completed")
        return self.wait()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future with what a function gives when the call has completed."""
        return _Following(self, callback)


class _Following(Future):
    """What a function gives when another future is done."""

    def __init__(self, before: Future, callback: Callable[[Future], Any]) -> None:
        super().__init__()
        self._before, self._callback = before, callback

    def done(self) -> bool:
        return self._is_done or self._before.done()

    def wait(self) -> Any:
        if not self._is_done:
            self._before.wait()
            try:
                self.set_result(self._callback(self._before))
            except Exception as error:
                self.set_exception(error)
        return super().value()

    def value(self) -> Any:
        if not self.done():
            raise RuntimeError("value() of a Future that is not completed")
        return self.wait()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        return _Following(self, callback)
