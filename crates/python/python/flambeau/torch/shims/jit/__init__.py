"""torch.jit: functions and modules run as they are, so that what is scripted or traced is the function or module itself."""

from __future__ import annotations

import contextlib

from flambeau.nn import Module
from flambeau.torch.placeholders import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

from typing import Final as Final, Union as _Union  # noqa: E402

Union = _Union
Attribute: Any = tuple


def script(obj: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function, class or module itself."""
    return obj


def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The function or module itself."""
    return func


def trace_module(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """The module itself."""
    return mod


def script_if_tracing(fn: Any) -> Any:
    """The function itself."""
    return fn


def script_method(fn: Any) -> Any:
    """The method itself."""
    return fn


def freeze(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """The module itself."""
    return mod


def optimize_for_inference(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """The module itself."""
    return mod


def export(fn: Any) -> Any:
    """The method itself."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """A decorator that gives back the function."""
    return drop if callable(drop) else (lambda fn: fn)


def unused(fn: Any) -> Any:
    """The function itself."""
    return fn


def interface(obj: Any) -> Any:
    """The class itself."""
    return obj


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


def is_scripting() -> bool:
    """False: nothing is compiled."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether it is an object of the class."""
    import builtins

    return builtins.isinstance(obj, target_type)


def optimized_execution(should_optimize: bool) -> Any:
    """A context that does nothing."""
    return contextlib.nullcontext()


def fuser(name: str) -> Any:
    """A context that does nothing."""
    return contextlib.nullcontext()


def enable_onednn_fusion(enabled: bool) -> None:
    """Changes nothing."""


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Changes nothing."""
    return []


def _overload(fn: Any) -> Any:
    return fn


def _overload_method(fn: Any) -> Any:
    return fn


def _script_if_tracing(fn: Any) -> Any:
    return fn


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """NotImplementedError: there is no TorchScript to save."""
    raise refuse("torch.jit.save")


def load(f: Any, map_location: Any = None, _extra_files: Any = None) -> Any:
    """NotImplementedError: there is no TorchScript to load."""
    raise refuse("torch.jit.load")


class ScriptModule(Module):
    """The base of compiled modules; no module is one."""


class RecursiveScriptModule(ScriptModule):
    """Likewise."""


class ScriptFunction:
    """A compiled function; no function is one."""


class TracedModule(ScriptModule):
    """A traced module; no module is one."""


TopLevelTracedModule = TracedModule


class CompilationUnit:
    """A set of compiled functions; there are none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise refuse("torch.jit.CompilationUnit")


class Error(RuntimeError):
    """What compiled functions raise."""


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A future with the result of a call, which is made at once."""
    from flambeau.torch.shims.top import fork as forked

    return forked(func, *args, **kwargs)


def wait(future: Any) -> Any:
    """The result of a future."""
    return future.wait()
