"""torch.fx: what packages need when they are imported; tracing is not implemented."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def wrap(fn_or_name: Any) -> Any:
    """The function itself: a call in a traced program would be one node."""
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """The function itself."""
    return fn


class Proxy:
    """What stands for a value while a program is traced; no value is one."""


class Tracer:
    """Traces programs. Making one fails, since tracing is not implemented; packages derive classes from it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from flambeau.torch.placeholders import refuse

        raise refuse("torch.fx.Tracer")
