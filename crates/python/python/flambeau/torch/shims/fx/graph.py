"""torch.fx.graph: a program as a list of nodes, and the Python code of it."""

from __future__ import annotations

import builtins
import keyword
import re
from contextlib import contextmanager

from flambeau.torch.shims.fx.code import PythonCode as PythonCode, write
from flambeau.torch.shims.fx.node import Node, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["CodeGen", "Graph", "PythonCode"]


class CodeGen:
    """Writes the code of a graph."""


class _Names:
    """Names of variables, each of which is given once."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._count: dict[str, int] = {}

    def create(self, requested: str) -> str:
        """The name, with a number if it is taken."""
        clean = re.sub("[^0-9a-zA-Z_]+", "_", requested) or "_unnamed"
        clean = f"_{clean}" if clean[0].isdigit() else clean
        found = re.match(r"(.*)_(\d+)$", clean)
        base, number = (found[1], int(found[2])) if found else (clean, None)
        name = clean
        if number is None:
            number = self._count.get(base, 0)
        while name in self._given or keyword.iskeyword(name) or hasattr(builtins, name) or name in ("inf", "nan", "NoneType", "torch"):
            number += 1
            name = f"{base}_{number}"
        self._given.add(name)
        self._count[base] = number
        return name


class _Nodes:
    """The nodes of a graph in order; nodes may be added and erased meanwhile."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root._prev if self._backwards else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self._backwards else node._next

    def __reversed__(self) -> _Nodes:
        return _Nodes(self._graph, not self._backwards)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower() if not name.islower() else name


class Graph:
    """A program: nodes in the order in which they run."""

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._names = self._graph_namespace = _Names()
        self._insert: Callable[[Node], None] = self._root.prepend
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order."""
        return _Nodes(self)

    @property
    def output_node(self) -> Any:
        """The node of the result."""
        return lambda: next(node for node in reversed(self.nodes) if node.op == "output")

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes with an operation, and with a target if one is given."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def _name_of(self, op: str, target: Any) -> str:
        if isinstance(target, str):
            # A module is named by its whole path, an attribute too.
            return _snake_case(target)
        return _snake_case(getattr(target, "__name__", type(target).__name__) or "call")

    def create_node(
        self, op: str, target: Any, args: Any = None, kwargs: Any = None, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Adds a node where the next one is inserted."""
        node = Node(self, self._names.create(name or self._name_of(op, target)), op, target, args or (), kwargs or {}, type_expr)
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_create_node_hooks", ()):
                hook(node)
        self._insert(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Adds an argument of the program."""
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Adds the reading of an attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Adds the call of a part of the module."""
        if self.owning_module is not None and not _has_submodule(self.owning_module, module_name):
            import warnings

            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Adds the call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None, type_expr: Any = None, name: str | None = None
    ) -> Node:
        """Adds the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Adds the result."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Adds a copy of another graph's node, with the arguments that the function gives for its inputs."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Adds copies of another graph's nodes, and gives what its result is here."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                found = map_arg(node.args[0], lambda n: val_map[n])
                return (found, node) if return_output_node else found
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that nothing reads."""
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!")
        if to_erase._erased:
            return
        to_erase._unlink()
        to_erase._erased = True
        to_erase._set((), {})

    @contextmanager
    def inserting_before(self, n: Node | None = None) -> Iterator[None]:
        """Inside it, nodes are inserted in front of one; without one, at the begin."""
        yield from self._inserting((n or self._root._next).prepend)

    @contextmanager
    def inserting_after(self, n: Node | None = None) -> Iterator[None]:
        """Inside it, each node is inserted right behind one; without one, at the begin."""
        yield from self._inserting((n or self._root).append)

    def _inserting(self, insert: Callable[[Node], None]) -> Iterator[None]:
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes nodes that nothing reads and that change nothing; whether there were any."""
        keeps = is_impure_node or (lambda node: node.is_impure())
        found = False
        for node in list(reversed(self.nodes)):
            if not node.users and not keeps(node) and node.op not in ("placeholder", "output"):
                self.erase_node(node)
                found = True
        return found

    def lint(self) -> None:
        """RuntimeError where a node reads one that comes later, or two have the same name."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for read in node.all_input_nodes:
                if read.graph is not self:
                    raise RuntimeError(f"Argument '{read}' of Node '{node}' does not belong to this Graph")
                if read not in seen:
                    raise RuntimeError(f"Argument '{read}' of Node '{node}' was used before it has been defined! Please check that Nodes in the graph are topologically ordered\n{self}")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            if node.op in ("get_attr", "call_module") and self.owning_module is not None:
                _check_target(self.owning_module, node)
            seen.add(node)
            names.add(node.name)

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """The program as Python code."""
        return write(self, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Keeps the object; the code is written by this library."""
        self._codegen = codegen

    def print_tabular(self) -> None:
        """Prints a table of the nodes."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(node.op, node.name, str(node.target), str(node.args), str(node.kwargs)) for node in self.nodes]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line is not None)

    def __deepcopy__(self, memo: Any = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        memo = {} if memo is None else memo
        memo[id(self)] = made
        values: dict[Node, Node] = {}
        for node in self.nodes:
            values[node] = made.node_copy(node, lambda n: values[n])
        return made


def _has_submodule(module: Any, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True


def _check_target(module: Any, node: Node) -> None:
    value = module
    for name in node.target.split("."):
        if not hasattr(value, name):
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {name} of {type(value).__name__}")
        value = getattr(value, name)
