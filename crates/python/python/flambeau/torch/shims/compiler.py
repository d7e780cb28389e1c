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
    """`torch.compile`."""
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


class PrecompileError(RuntimeError):
    """An error of a compiled artifact; none is raised here."""


_backend: list[Any] = ["inductor"]


def get_default_backend() -> Any:
    """The name that was set; nothing is compiled."""
    return _backend[0]


def set_default_backend(backend: Any) -> None:
    """Sets what `get_default_backend` says."""
    _backend[0] = "inductor" if backend is None else backend


def cudagraph_mark_warmup_incomplete() -> None:
    """Marks nothing."""


def nonstrict_trace(traceable_fn: Any) -> Any:
    """The function itself."""
    return traceable_fn


def save_cache_artifacts() -> None:
    """None: nothing was compiled."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """None: nothing is loaded, since nothing is compiled."""


def set_enable_guard_collectives(enabled: bool) -> None:
    """Changes nothing: there are no guards."""


def skip_all_guards_unsafe(guard_entries: Any) -> list[bool]:
    """For each guard, that it is not kept."""
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Any) -> list[bool]:
    """For each guard, whether it is on something that is no global."""
    return [not entry.is_global for entry in guard_entries]


def wrap_numpy(fn: Any) -> Any:
    """A function of NumPy's arrays as one of tensors."""
    import functools

    import flambeau
    from flambeau.utils import _pytree as pytree

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(lambda x: x.numpy() if isinstance(x, flambeau.Tensor) else x, (args, kwargs))
        found = fn(*args, **kwargs)
        return pytree.tree_map(lambda x: flambeau.as_tensor(x) if type(x).__module__ == "numpy" else x, found)

    return wrapped
