"""torch._jit_internal: decorators of TorchScript, which give back their functions."""

from __future__ import annotations

from typing import Final as Final

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _same(fn: Any) -> Any:
    """The function itself."""
    return fn


_copy_to_script_wrapper = export = unused = weak_script = _overload = _overload_method = weak_script_method = _same
_drop = ignore = _same


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str, func_name: str) -> Any:
    """A function that calls one of two, by an argument."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return if_true(*args, **kwargs) if chosen else if_false(*args, **kwargs)

    return fn


def is_scripting() -> bool:
    """False."""
    return False
