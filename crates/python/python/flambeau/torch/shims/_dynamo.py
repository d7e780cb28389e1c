"""torch._dynamo: there is no compiler; the decorators that packages use give back their functions."""

from __future__ import annotations

from types import SimpleNamespace

from flambeau.torch.shims.compiler import allow_in_graph as allow_in_graph, assume_constant_result as assume_constant_result
from flambeau.torch.shims.compiler import disable as disable, is_compiling as is_compiling, reset as reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

config: Any = SimpleNamespace(
    suppress_errors=False,
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_cache_size_limit=256,
    verbose=False,
    optimize_ddp=False,
    capture_scalar_outputs=False,
    allow_unspec_int_on_nn_module=False,
    inline_inbuilt_nn_modules=True,
)


def graph_break(msg: str = "") -> None:
    """Breaks nothing."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Marks nothing."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Marks nothing."""


def mark_static(t: Any, index: Any = None) -> None:
    """Marks nothing."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Marks nothing."""


def disallow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def run(fn: Any = None) -> Any:
    """The function itself."""
    return fn


def optimize(*args: Any, **kwargs: Any) -> Any:
    """A decorator that gives back the function."""
    return lambda function: function
