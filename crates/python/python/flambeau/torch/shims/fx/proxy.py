"""torch.fx.proxy: what stands for a value while a program is traced, and records what is done with it."""

from __future__ import annotations

import builtins
import dis
import inspect
import operator

import flambeau
from flambeau import Tensor
from flambeau.torch.shims.fx.graph import Graph
from flambeau.torch.shims.fx.node import Node, map_aggregate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]

BASE_TYPES = (str, int, float, bool, complex, flambeau.dtype, flambeau.device, range, type(...), type(None))


class TraceError(ValueError):
    """A program does with an unknown value what only a known one allows."""


class TracerBase:
    """Makes nodes and proxies."""

    graph: Graph
    record_stack_traces = False
    trace_asserts = False
    check_mutable_operations = False
    proxy_buffer_attributes = False

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None) -> Node:
        """Adds a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None, proxy_factory_fn: Any = None
    ) -> Any:
        """Adds a node for a call with proxies among its arguments, and gives the proxy of its result."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn is not None else self.proxy(node)

    def create_arg(self, a: Any) -> Any:
        """An argument of a node: proxies become their nodes."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, range):
            return range(*(self.create_arg(x) for x in (a.start, a.stop, a.step)))
        if isinstance(a, BASE_TYPES) or inspect.isroutine(a) or isinstance(a, (type, flambeau.Size, flambeau.layout, flambeau.memory_format)):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """TraceError: what a proxy stands for is not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The items of a value that is unpacked into a known number of names; else TraceError."""
        count = _unpacked(2)
        if count is not None:
            value: Any = obj
            return builtins.iter([value[index] for index in range(count)])
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function "
            "argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, "
            "and check out the Proxy docstring for help troubleshooting Proxy iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """A proxy of the keys."""
        return Attribute(obj, "keys")()


def _unpacked(depth: int) -> int | None:
    """Into how many names the caller unpacks the value that it iterates over."""
    frame: Any = inspect.currentframe()
    for _ in range(depth + 1):
        frame = frame.f_back
    found = next((step for step in dis.get_instructions(frame.f_code) if step.offset == frame.f_lasti), None)
    return found.argval if found is not None and found.opname == "UNPACK_SEQUENCE" else None


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """A value that is not known. What is done with it becomes a node."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("__fx_create_arg__", "__array_interface__", "__array_struct__", "__array__", "__dlpack__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __index__(self) -> int:
        raise RuntimeError("__index__ is not supported in symbolic tracing: the value is not known")

    def keys(self) -> Any:
        """A proxy of the keys."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Records the call of a function or of a method of tensors."""
        found: list[TracerBase] = []
        map_aggregate((tuple(args), kwargs or {}), lambda a: found.append(a.tracer) if isinstance(a, Proxy) else None)
        name = getattr(orig_method, "__name__", "")
        if getattr(Tensor, name, None) is orig_method and not hasattr(flambeau._flambeau, f"_{name}_"):
            return found[0].create_proxy("call_method", name, args, kwargs or {})
        return found[0].create_proxy("call_function", orig_method, args, kwargs or {}, name=found[0].graph._name_of("", orig_method))

    __flambeau_function__ = __torch_function__


class Attribute(Proxy):
    """An attribute of an unknown value; a node is made where it is no call of a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Any:
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    @node.setter
    def node(self, value: Node) -> None:
        self._node = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


OPERATORS = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "matmul", "eq", "ne", "lt", "gt", "le", "ge",
    "pos", "neg", "invert", "getitem", "and_", "or_", "xor",
)
REFLECTED = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul")


def _operator(name: str) -> Any:
    function = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *args), {})

    return method


def _reflected(name: str) -> Any:
    function = getattr(operator, name)

    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    return method


for _name in OPERATORS:
    setattr(Proxy, f"__{_name.strip('_')}__", _operator(_name))
for _name in REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected(_name))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
