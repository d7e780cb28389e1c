"""torch.utils._contextlib: contexts that are decorators too."""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def context_decorator(ctx: Any, func: Any) -> Any:
    """The function inside a context: one that is made for each call, or the same again."""
    make = ctx if callable(ctx) and not hasattr(ctx, "__enter__") else (lambda: ctx)

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return inside


class _DecoratorContextManager:
    """A context that decorates functions: each call has one of its own."""

    def __call__(self, orig_func: Any) -> Any:
        """The function inside the context."""
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *raised: object) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """A context like this one."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same without arguments: the class itself is a decorator."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
