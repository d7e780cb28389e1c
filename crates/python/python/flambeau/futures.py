"""Results that are set later, with functions that are called then."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result that is set later, by any thread."""

    def __init__(self, *, devices: Any = None) -> None:
        self._changed = threading.Condition()
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._is_done

    def wait(self) -> Any:
        """The result, as soon as it is there; the exception if there is one."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_done)
        return self.value()

    def value(self) -> Any:
        """The result, which must be there."""
        if not self._is_done:
            raise RuntimeError("value() of a Future that is not completed")
        if self._error is not None:
            raise self._error
        return self._value

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._is_done:
                raise RuntimeError("Future can only be marked completed once.")
            self._is_done, self._value, self._error = True, value, error
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)

    def set_result(self, result: Any) -> None:
        """Sets the result."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets an exception, which `wait` raises."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls a function with the future when it is done; at once if it is."""
        with self._changed:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future with what a function gives when this one is done."""
        following = Future()

        def call(done: Future) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(call)
        return following

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


def collect_all(futures: list[Future]) -> Future:
    """A future that is done when all are, with the list of them."""
    both, waiting, lock = Future(), [len(futures)], threading.Lock()
    if not futures:
        both.set_result([])

    def count(done: Future) -> None:
        with lock:
            waiting[0] -= 1
            is_last = waiting[0] == 0
        if is_last:
            both.set_result(list(futures))

    for future in futures:
        future.add_done_callback(count)
    return both


def wait_all(futures: list[Future]) -> list[Any]:
    """The results of all."""
    return [future.wait() for future in futures]
