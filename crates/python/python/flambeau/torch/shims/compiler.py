"""torch.compiler: programs run as they are, so that nothing is compiled, and decorators give back their functions."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_compiling() -> bool:
    """False."""
    return False


def is_dynamo_compiling() -> bool:
    """False."""
    return False


def is_exporting() -> bool:
    """False."""
    return False


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function itself, or a decorator."""
    return fn if fn is not None else (lambda function: function)


def compile(*args: Any, **kwargs: Any) -> Any:
    """The function itself."""
    from flambeau.torch.shims.top import compile as compiled

    return compiled(*args, **kwargs)


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself."""
    return fn


def substitute_in_graph(original_fn: Any, **options: Any) -> Any:
    """A decorator that gives back the function."""
    return lambda function: function


def nested_compile_region(fn: Any = None) -> Any:
    """The function itself, or a decorator."""
    return fn if fn is not None else (lambda function: function)


def reset() -> None:
    """Forgets nothing."""


def cudagraph_mark_step_begin() -> None:
    """Marks nothing."""


def set_stance(*args: Any, **kwargs: Any) -> Any:
    """A context that does nothing."""
    return contextlib.nullcontext()


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """No compilers."""
    return []
