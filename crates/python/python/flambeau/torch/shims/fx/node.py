"""torch.fx.node: one step of a graph, with the steps that it reads and those that read it."""

from __future__ import annotations

import builtins
import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau.torch.shims.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = Argument = Target = object
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
# Functions whose calls stay in a graph though nothing reads their results.
_side_effectful_functions: set[Any] = set()


def has_side_effect(fn: Any) -> Any:
    """Keeps calls of the function in graphs though nothing reads their results."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Applies a function to everything in a nest of tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else type(a)(items) if type(a) is not tuple else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(item, fn) for item in a]
    if isinstance(a, dict):
        return {key: map_aggregate(item, fn) for key, item in a.items()}
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Applies a function to every node in a nest."""
    return map_aggregate(a, lambda item: fn(item) if isinstance(item, Node) else item)


def _qualified_name(func: Any) -> str:
    """The name under which a program finds a function."""
    name = getattr(func, "__name__", None) or type(func).__name__
    if getattr(builtins, name, None) is func:
        return f"builtins.{name}"
    if getattr(operator, name, None) is func:
        return f"operator.{name}"
    import sys

    module = getattr(func, "__module__", None) or ""
    if module == "flambeau._functions":
        return f"torch.functional.{name}"
    for path in ("torch", "torch.nn.functional", "torch.special", "torch.linalg"):
        if path in sys.modules and getattr(sys.modules[path], name, None) is func:
            return f"{path}.{name}"
    origin = getattr(func, "_fx_name", None)
    if origin is not None:
        return str(origin)
    if module in ("", "builtins", "flambeau._flambeau") and hasattr(sys.modules.get("torch"), name):
        # The operator below a function that is written in Python.
        return f"torch.{name}"
    module = module.replace("flambeau.torch.shims", "torch", 1).replace("flambeau", "torch", 1)
    return f"{module}.{getattr(func, '__qualname__', name)}".lstrip(".")


def _type_repr(obj: Any) -> str:
    """A type as it is written in a program."""
    if isinstance(obj, type) and not hasattr(obj, "__origin__"):
        return obj.__qualname__ if obj.__module__ == "builtins" else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    return str(getattr(obj, "__name__", repr(obj)) if callable(obj) and hasattr(obj, "__code__") else repr(obj))


class Node:
    """A step: an argument of the program (`placeholder`), an attribute of the module (`get_attr`), a call, or the result (`output`)."""

    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], return_type: Any = None
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"Node [graph = {graph}, name = '{name}'] has op {op!r}, expected one of {OPS}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self._args: Any = ()
        self._kwargs: Any = {}
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Any = None
        self._set(args, kwargs)

    def _set(self, args: Any, kwargs: Any) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = tuple(args), dict(kwargs), {}

        def used(node: Node) -> Node:
            self._input_nodes[node] = None
            node.users[self] = None
            return node

        map_arg((self._args, self._kwargs), used)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by position."""
        return self._args

    @args.setter
    def args(self, value: Any) -> None:
        self._set(value, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: Any) -> None:
        self._set(self._args, value)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that this one reads."""
        return list(self._input_nodes)

    @property
    def next(self) -> Node:
        """The step after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The step before this one."""
        return self._prev

    @property
    def stack_trace(self) -> str | None:
        """Where the program made the call, if that is known."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces an argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Inserts an argument."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Sets an argument by name."""
        self.kwargs = {**self._kwargs, key: arg}

    def prepend(self, x: Node) -> None:
        """Moves a node in front of this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Moves a node behind this one."""
        if x is not self._next:
            self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Lets the nodes that read this one read another; gives back those that changed."""
        if propagate_meta:
            for key, value in self.meta.items():
                replace_with.meta.setdefault(key, value)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Reads another node than before."""

        def swapped(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, swapped), map_arg(self._kwargs, swapped))

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the step stays though nothing reads its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions or (getattr(self.target, "__name__", "").endswith("_") and "__" not in str(self.target))
        if self.op == "call_method":
            return isinstance(self.target, str) and self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_module":
            module = self.graph.owning_module
            return bool(getattr(module.get_submodule(self.target), "_is_impure", False)) if module is not None else False
        return False

    def normalized_arguments(self, root: Any, *arguments: Any, **options: Any) -> Any:
        """None: arguments are known as they are written."""

    def format_node(self, *arguments: Any, **options: Any) -> str | None:
        """The step as a line of text."""
        kind = f" : {_type_repr(self.type)}" if self.type else ""
        head = f"%{self.name}{kind} : [num_users={len(self.users)}] ="
        if self.op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            return f"%{self.name} :{kind[2:]} [num_users={len(self.users)}] = placeholder[target={self.target}]{default}"
        head = head if not kind else f"%{self.name} :{kind[2:]} [num_users={len(self.users)}] ="
        if self.op == "get_attr":
            return f"{head} get_attr[target={self.target}]"
        if self.op == "output":
            return f"return {self._args[0]}"
        target = self.target if isinstance(self.target, str) else _qualified_name(self.target)
        args = ", ".join(_with_percent(arg) for arg in self._args)
        kwargs = ", ".join(f"{key}: {_with_percent(value)}" for key, value in self._kwargs.items())
        return f"{head} {self.op}[target={target}](args = ({args}{',' if len(self._args) == 1 else ''}), kwargs = {{{kwargs}}})"

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Node) -> bool:
        return self._position() < other._position()

    def _position(self) -> int:
        return next(number for number, node in enumerate(self.graph.nodes) if node is self)


def _with_percent(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(_with_percent, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_with_percent, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_with_percent(item)}' for key, item in value.items())}}}"
    return str(value)
