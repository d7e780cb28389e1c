"""Which calls are recorded: context managers that are decorators too."""

from __future__ import annotations

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])


class _Mode:
    """Entered on this thread, left in the reverse order; a decorated function runs inside."""

    def __new__(cls, first: Any = None) -> Any:
        mode = super().__new__(cls)
        if not callable(first):
            return mode
        # `@no_grad` without parentheses.
        mode._depths = []
        return mode(first)

    def __init__(self) -> None:
        self._depths: list[int] = []

    def _enter(self) -> int:
        raise NotImplementedError

    def __enter__(self) -> None:
        self._depths.append(self._enter())

    def __exit__(self, *raised: object) -> None:
        _flambeau._leave_mode(self._depths.pop())

    def __call__(self, function: Any) -> Any:
        from functools import wraps
        from inspect import isgeneratorfunction

        if isgeneratorfunction(function):
            return self._around_generator(function, wraps)

        @wraps(function)
        def inside(*arguments: Any, **named: Any) -> Any:
            with self._again():
                return function(*arguments, **named)

        return inside

    def _around_generator(self, function: Any, wraps: Any) -> Any:
        """The mode is active while the generator runs, not while its consumer does."""

        def inside(*arguments: Any, **named: Any) -> Any:
            steps = function(*arguments, **named)
            sent = None
            while True:
                try:
                    with self._again():
                        value = steps.send(sent)
                except StopIteration as stopped:
                    return stopped.value
                try:
                    sent = yield value
                except GeneratorExit:
                    with self._again():
                        steps.close()
                    raise

        return wraps(function)(inside)

    def _again(self) -> _Mode:
        return type(self)()


class no_grad(_Mode):
    """Operators record nothing: results need no gradient."""

    def _enter(self) -> int:
        return _flambeau._enter_no_grad()


class enable_grad(_Mode):
    """Operators record again, inside `no_grad`."""

    def _enter(self) -> int:
        return _flambeau._enter_enable_grad()


class inference_mode(_Mode):
    """Nothing is recorded, now or later: results can never take part in a graph."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = mode

    def _enter(self) -> int:
        return _flambeau._enter_inference_mode() if self._mode else _flambeau._enter_enable_grad()

    def _again(self) -> _Mode:
        return inference_mode(self._mode)


class set_grad_enabled(_Mode):
    """`enable_grad` or `no_grad`, from the call on; as a context manager, until it ends."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._mode = bool(mode)
        self._depths.append(_flambeau._set_grad_enabled(self._mode))

    def __enter__(self) -> None:
        _flambeau._hold_mode(self._depths[-1])

    def __call__(self, function: Any) -> Any:
        _flambeau._leave_mode(self._depths.pop())
        return super().__call__(function)

    def _again(self) -> _Mode:
        return set_grad_enabled(self._mode)
