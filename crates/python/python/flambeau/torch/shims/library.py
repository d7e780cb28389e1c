"""torch.library: operators of programs are functions that are called as they are."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libraries: dict[str, dict[str, Any]] = {}


def _registered(qualname: str, function: Any) -> Any:
    namespace, _, name = qualname.partition("::")
    _libraries.setdefault(namespace, {})[name.partition(".")[0]] = function
    return function


def registered(namespace: str) -> dict[str, Any]:
    """The operators of a namespace, by name."""
    return _libraries.get(namespace, {})


class CustomOpDef:
    """An operator of a program's own: its function, which may have a derivative of its own."""

    def __init__(self, name: str, function: Any) -> None:
        self._qualname, self._function = name, function
        self._backward: Any = None
        self._setup_context: Any = None
        self.__name__ = name.partition("::")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._backward is None:
            return self._function(*args, **kwargs)
        return self._differentiable()(*args, **kwargs)

    def _differentiable(self) -> Any:
        from flambeau.autograd import Function

        forward, setup = self._function, self._setup_context or (lambda ctx, inputs, output: None)
        parts = {
            "forward": staticmethod(forward),
            "setup_context": staticmethod(lambda ctx, inputs, output: setup(ctx, inputs, output)),
            "backward": staticmethod(self._backward),
        }
        made: Any = type(self.__name__, (Function,), parts)
        return made.apply

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Sets the derivative."""
        self._backward, self._setup_context = backward, setup_context

    def register_fake(self, fn: Any, /) -> Any:
        """Gives back the function, which nothing calls: shapes are those of real results."""
        return fn

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Sets the function for the CPU; those for other devices are never called."""

        def register(function: Any) -> Any:
            kinds = (device_types,) if isinstance(device_types, str) else device_types
            if kinds is None or "cpu" in kinds:
                self._function = function
            return function

        return register if fn is None else register(fn)

    def register_vmap(self, func: Any = None) -> Any:
        """Gives back the function, which nothing calls."""
        return func if func is not None else (lambda function: function)

    register_torch_dispatch = register_vmap


def custom_op(name: str, fn: Any = None, /, **options: Any) -> Any:
    """An operator of the function; a decorator where none is given."""

    def make(function: Any) -> Any:
        return _registered(name, CustomOpDef(name, function))

    return make if fn is None else make(fn)


def triton_op(name: str, fn: Any = None, /, **options: Any) -> Any:
    """The same."""
    return custom_op(name, fn, **options)


def _decorator(*args: Any, **kwargs: Any) -> Any:
    """A decorator that gives back its function."""
    functions = [arg for arg in args if callable(arg) and not isinstance(arg, CustomOpDef)]
    return functions[-1] if functions else (lambda function: function)


register_fake = impl_abstract = register_vmap = register_torch_dispatch = _decorator


def impl(qualname: Any, types: Any = None, func: Any = None, *, lib: Any = None) -> Any:
    """Sets the function of an operator for the CPU."""

    def register(function: Any) -> Any:
        if isinstance(qualname, str) and (types in ("cpu", "default", "CompositeImplicitAutograd", "CompositeExplicitAutograd")):
            _registered(qualname, function)
        return function

    return register if func is None else register(func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *, lib: Any = None) -> Any:
    """Sets the function of an operator for the CPU."""
    return op.register_kernel(device_types, func) if isinstance(op, CustomOpDef) else _decorator(func)


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Sets the derivative of an operator."""
    if isinstance(op, str):
        namespace, _, name = op.partition("::")
        op = registered(namespace).get(name)
    if isinstance(op, CustomOpDef):
        op.register_autograd(backward, setup_context=setup_context)


def define(qualname: str, schema: Any = None, **options: Any) -> None:
    """Names an operator, which has no function yet."""


def wrap_triton(kernel: Any, /) -> Any:
    """The kernel itself."""
    return kernel


class Library:
    """A namespace of operators."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", **options: Any) -> str:
        """Names an operator."""
        return schema.partition("(")[0]

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """Sets the function of an operator for the CPU."""
        key = dispatch_key or self.dispatch_key
        if isinstance(op_name, str) and key in ("", "CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            _registered(f"{self.ns}::{op_name}" if "::" not in op_name else op_name, fn)

    def fallback(self, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """Sets nothing."""

    def _destroy(self) -> None:
        _libraries.pop(self.ns, None)


def infer_schema(prototype_function: Any, /, **options: Any) -> str:
    """The parameters of the function as text."""
    import inspect

    return str(inspect.signature(prototype_function))


def opcheck(*args: Any, **kwargs: Any) -> dict[str, str]:
    """Nothing is checked: operators are functions."""
    return {}


def get_ctx() -> Any:
    """None: there is no tracing."""
    return None
