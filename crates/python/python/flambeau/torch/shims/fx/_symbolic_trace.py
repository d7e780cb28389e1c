"""torch.fx._symbolic_trace: runs a program with proxies in the arguments, and records it as a graph."""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
from contextlib import ExitStack, contextmanager

import flambeau
from flambeau import Tensor
from flambeau.nn import Module, Parameter
from flambeau.torch.shims.fx.graph import Graph
from flambeau.torch.shims.fx.graph_module import GraphModule
from flambeau.torch.shims.fx.node import Node, map_aggregate
from flambeau.torch.shims.fx.proxy import Proxy, TracerBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

_tracing = 0
# Functions whose calls are one node each, by the scope and the name under which they are called.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
# Functions of `torch.nn.functional` that PyTorch has in C++: their arguments are recorded as they are given.
BUILT_IN = frozenset(
    "avg_pool1d avg_pool2d avg_pool3d bilinear channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
    "conv_transpose3d cosine_similarity gelu hardshrink linear logsigmoid native_channel_shuffle one_hot pairwise_distance pdist "
    "pixel_shuffle pixel_unshuffle prelu scaled_dot_product_attention softplus softshrink adaptive_avg_pool1d celu_ elu_ hardtanh_ "
    "leaky_relu_ relu_ rrelu_ selu_ threshold_".split()
)


class _PH:
    """What stands for an argument in `concrete_args`."""

    def __repr__(self) -> str:
        return "PH"


PHBase = _PH
PH = _PH()


def is_fx_tracing() -> bool:
    """Whether a program is traced."""
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


class ProxyableClassMeta(type):
    """A class whose construction with proxies is recorded as one call."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = _first_proxy((args, kwargs))
        return super().__call__(*args, **kwargs) if found is None else found.tracer.create_proxy("call_function", cls, args, kwargs)


def _first_proxy(values: Any) -> Any:
    found: list[Proxy] = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


def wrap(fn_or_name: Any) -> Any:
    """Records calls of a function in a module's scope as one node each; a decorator, or called with the function's name."""
    name = fn_or_name if isinstance(fn_or_name, str) else getattr(fn_or_name, "__name__", None)
    if name is None:
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    frame: Any = inspect.currentframe()
    scope = frame.f_back.f_globals
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(scope), name] = scope
    return fn_or_name


def _recorded(function: Any, is_wrapped: bool = False) -> Any:
    """The function, whose calls with proxies become nodes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = _first_proxy((args, kwargs))
        if found is None:
            return function(*args, **kwargs)
        args, kwargs = _as_recorded(function, args, kwargs)
        made = found.tracer.create_proxy("call_function", function, args, kwargs)
        if is_wrapped:
            made.node.meta["is_wrapped"] = True
        return made

    return call


def _as_recorded(function: Any, args: Any, kwargs: Any) -> Any:
    """The arguments as PyTorch records them: of functions written in Python, those with defaults by name."""
    if not getattr(function, "__module__", "").startswith("flambeau.nn.functional") or function.__name__ in BUILT_IN:
        return args, kwargs
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    parameters = inspect.signature(function).parameters
    if any(parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) for parameter in parameters.values()):
        return args, kwargs
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return tuple(bound.arguments[name] for name in required), {n: v for n, v in bound.arguments.items() if n not in required}


class Tracer(TracerBase):
    """Traces a module or function. Subclasses say which modules are leaves, whose calls are one node each."""

    def __init__(
        self, autowrap_modules: Any = (math,), autowrap_functions: Any = (), param_shapes_constant: bool = False
    ) -> None:
        self._autowrap_modules, self._autowrap_functions = tuple(autowrap_modules), tuple(autowrap_functions)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.tensor_attrs: dict[Any, str] = {}
        self.root: Any = None

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether the module is one of the library's own layers."""
        name = type(m).__module__
        return name.startswith(("torch.nn", "torch.ao.nn", "flambeau.nn")) and not isinstance(m, flambeau.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module below the root."""
        if self.submodule_paths is None:
            self.submodule_paths = {module: name for name, module in self.root.named_modules(remove_duplicate=False)}
        path = self.submodule_paths.get(mod)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def create_arg(self, a: Any) -> Any:
        """An argument of a node: parameters and tensors become attributes of the root."""
        return map_aggregate(a, self._argument)

    def _argument(self, a: Any) -> Any:
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a, "_tensor_constant")
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        try:
            return self._leaf(a)
        except NotImplementedError:
            if hasattr(a, "__dict__") or hasattr(type(a), "__slots__"):
                return self._constant(a, f"_{type(a).__name__}_constant_")
            raise

    def _constant(self, value: Any, prefix: str) -> Node:
        """Reads a value that the root gets as an attribute."""
        name = next((name for name, known in vars(self.root).items() if known is value), None) or self.tensor_attrs.get(id(value))
        if name is None:
            number = 0
            while hasattr(self.root, f"{prefix}{number}"):
                number += 1
            name = f"{prefix}{number}"
            setattr(self.root, name, value)
            self.tensor_attrs[id(value)] = name
        return self.create_node("get_attr", name, (), {})

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call of a leaf, and goes into other modules."""
        path = self.path_of_module(m)
        if not self.is_leaf_module(m, path):
            return forward(*args, **kwargs)
        return self.create_proxy("call_module", path, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """A parameter of a module as a proxy, and other attributes as they are."""
        if isinstance(attr_val, Parameter):
            return self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _proxy_of(self, value: Any, members: Any, known: dict[str, Any]) -> Any:
        for name, member in members:
            if value is member:
                if name not in known:
                    known[name] = self.create_proxy("get_attr", name, (), {})
                return known[name]
        return value

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function. `concrete_args` have values for arguments, which the graph is specialised to."""
        global _tracing
        is_module = isinstance(root, Module)
        self.root = root if is_module else Module()
        self.submodule_paths = None
        self.tensor_attrs = {}
        self.graph = Graph(tracer_cls=type(self))
        function: Any = getattr(type(root), getattr(self, "traced_func_name", "forward")) if is_module else root
        called, args = self.create_args_for_root(function, is_module, concrete_args)
        _tracing += 1
        try:
            with _patched(self, function):
                found = called(*args)
                kind = _annotation(function).get("return")
                self.create_node("output", "output", (self.create_arg(found),), {}, type_expr=kind)
        finally:
            _tracing -= 1
        self.submodule_paths = None
        return self.graph

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: dict[str, Any] | None = None) -> Any:
        """The arguments of the traced function: proxies, and what is given for some."""
        function = inspect.unwrap(root_fn)
        kinds = _annotation(function)
        args: list[Any] = [self.root] if is_module else []
        parameters = list(inspect.signature(function).parameters.values())[len(args) :]
        # In the order of a function's local variables, in which those with stars are last.
        parameters.sort(key=lambda parameter: (_STARS.get(parameter.kind, 0), parameter.kind is parameter.KEYWORD_ONLY))
        for parameter in parameters:
            if parameter.kind in _STARS:
                args.append(self.create_proxy("placeholder", "*" * _STARS[parameter.kind] + parameter.name, (), {}))
                continue
            default = () if parameter.default is parameter.empty else (parameter.default,)
            args.append(self._argument_of_root(parameter.name, default, kinds.get(parameter.name), concrete_args or {}))
        return _positional(function), args

    def _argument_of_root(self, name: str, default: Any, kind: Any, concrete: dict[str, Any]) -> Any:
        if name not in concrete or isinstance(concrete[name], _PH):
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        value = concrete[name]
        if isinstance(value, (tuple, list, dict)):
            raise NotImplementedError(f"torch.fx: concrete_args with a nest of values, for {name!r}")
        out = self.create_proxy("placeholder", f"{name}_1", default, {})
        message = f"{name} has been specialized to have value {value} but got another value"
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (out, message), {})
        elif isinstance(value, BASE) and not isinstance(value, Tensor):
            import torch  # type: ignore[import-not-found]

            self.create_proxy("call_function", torch._assert, (out == value, message), {})
        return value


BASE = (bool, int, float, str)
# The modules with the functions of this library that are written in Python.
RECORDED = ("flambeau.nn.functional", "flambeau._functions", "flambeau.linalg", "flambeau.special")
_STARS: dict[Any, int] = {inspect.Parameter.VAR_POSITIONAL: 1, inspect.Parameter.VAR_KEYWORD: 2}


def _positional(function: Any) -> Any:
    """The function with all parameters by position, so that those with stars can be proxies as a whole."""
    code = function.__code__
    stars = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    changed = code.replace(co_argcount=count, co_kwonlyargcount=0, co_posonlyargcount=0, co_flags=code.co_flags & ~stars)
    return types.FunctionType(changed, function.__globals__, function.__name__, None, function.__closure__)


def _annotation(function: Any) -> dict[str, Any]:
    function = inspect.unwrap(function)
    # PyTorch's own layers have none.
    own = (getattr(function, "__module__", None) or "").startswith("flambeau.")
    return {} if own else dict(getattr(function, "__annotations__", {}))


class _Replaced:
    """Attributes and items of scopes that are replaced while a program is traced."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def item(self, scope: dict[str, Any], name: str, value: Any) -> None:
        """Replaces a name of a scope."""
        before = scope[name] if name in scope else None
        has = name in scope
        self._undo.append(lambda: scope.__setitem__(name, before) if has else scope.pop(name, None))
        scope[name] = value

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute of a class."""
        before = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Takes everything back."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


@contextmanager
def _patched(tracer: Tracer, function: Any) -> Iterator[None]:
    """Inside it, modules are called through the tracer, and functions record calls with proxies."""
    replaced = _Replaced()
    call, get = Module.__call__, Module.__getattr__
    known: dict[str, Any] = {}

    def traced_call(module: Module, *args: Any, **kwargs: Any) -> Any:
        return tracer.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

    def traced_get(module: Module, name: str) -> Any:
        return tracer.getattr(name, get(module, name), known)

    with ExitStack() as stack:
        stack.callback(replaced.restore)
        replaced.attribute(Module, "__call__", traced_call)
        replaced.attribute(Module, "__getattr__", traced_get)
        for scope in _scopes(tracer, function):
            _record_functions(replaced, scope)
        for (_, name), scope in list(_wrapped.items()):
            original = scope.get(name, getattr(__import__("builtins"), name, None))
            if original is not None:
                replaced.item(scope, name, _recorded(original, is_wrapped=True))
        for module in tracer._autowrap_modules:
            for name, value in list(vars(module).items()):
                if callable(value) and not name.startswith("_") and not isinstance(value, type):
                    replaced.item(vars(module), name, _recorded(value))
        yield


def _scopes(tracer: Tracer, function: Any) -> list[dict[str, Any]]:
    """The scopes in which traced code calls functions by their names: PyTorch's modules, and those of the classes of the traced modules."""
    found = [vars(sys.modules[name]) for name in ("torch", "torch.nn.functional", "torch.special", "torch.linalg") if name in sys.modules]
    names = {cls.__module__ for module in tracer.root.modules() for cls in type(module).__mro__}
    found += [vars(sys.modules[name]) for name in names if name in sys.modules and not name.startswith(("flambeau.", "torch.", "builtins"))]
    found.append(getattr(inspect.unwrap(function), "__globals__", {}))
    return list({id(scope): scope for scope in found}.values())


def _record_functions(replaced: _Replaced, scope: dict[str, Any]) -> None:
    """Lets this library's functions that are written in Python record their calls."""
    for name, value in list(scope.items()):
        if inspect.isfunction(value) and (value.__module__ or "").startswith(RECORDED):
            replaced.item(scope, name, _recorded(value))


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Traces a module or function, and gives it as a module with a graph."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
