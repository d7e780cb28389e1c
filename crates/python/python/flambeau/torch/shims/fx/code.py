"""The Python code of a graph: one line for each node, with `None` given to variables after their last use."""

from __future__ import annotations

import re

from flambeau.torch.shims.fx.node import Node, _qualified_name, _type_repr, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Functions that are written as operators.
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "div": "/", "mod": "%", "pow": "**", "lshift": "<<",
    "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}
UNARY = {"pos": "+", "neg": "-", "invert": "~"}
IN_PLACE = {f"i{name.rstrip('_')}": f"{sign}=" for name, sign in BINARY.items() if name not in ("eq", "ne", "lt", "gt", "le", "ge")}


class PythonCode:
    """The text of a function, and what it needs to be in scope."""

    def __init__(self, src: str, globals: dict[str, Any]) -> None:
        self.src, self.globals = src, globals
        self._lineno_map: Any = None


class _Writer:
    """Writes nodes, and collects the functions that the code refers to."""

    def __init__(self, root_module: str, variables: set[str]) -> None:
        self.root, self._variables = root_module, variables
        self.globals: dict[str, Any] = {}

    def name_of(self, function: Any) -> str:
        """The name of a function in the code."""
        path = _qualified_name(function)
        if path.startswith("builtins."):
            return path.removeprefix("builtins.")
        if path.startswith("torch."):
            import torch  # type: ignore[import-not-found]

            self.globals["torch"] = torch
            return path
        if path.startswith("operator."):
            import operator

            self.globals["operator"] = operator
            return path
        name = re.sub("[^0-9a-zA-Z_]", "_", path)
        while name in self._variables or self.globals.get(name, function) is not function:
            name += "_"
        self.globals[name] = function
        return name

    def value(self, value: Any) -> str:
        """An argument as text."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            items = ", ".join(map(self.value, value))
            if hasattr(value, "_fields"):
                return f"{self.name_of(type(value))}({items})"
            return f"({items},)" if len(value) == 1 else f"({items})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.value(item)}" for key, item in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        text = repr(value)
        if isinstance(value, float) and text in ("inf", "-inf", "nan"):
            self.globals.update(inf=float("inf"), nan=float("nan"))
            return text
        if text.startswith("torch.") or type(value).__module__.startswith("flambeau"):
            import torch

            self.globals["torch"] = torch
            self.globals["device"] = torch.device
            return text
        if isinstance(value, (bool, int, float, complex, str, bytes, range)) or value is None or value is ...:
            return "..." if value is ... else text
        return self.name_of(value)

    def arguments(self, args: Any, kwargs: Any) -> str:
        """The arguments of a call."""
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(item)}" for key, item in kwargs.items())])

    def attribute(self, path: str) -> str:
        """An attribute of the module; names that are none in Python are looked up by `getattr`."""
        text = self.root
        for name in path.split("."):
            text = f"{text}.{name}" if name.isidentifier() else f'getattr({text}, "{name}")'
        return text

    def call(self, node: Node) -> str:
        """The expression of a call of a function."""
        name, args = getattr(node.target, "__name__", ""), node.args
        path = _qualified_name(node.target)
        if path.startswith("operator.") and not node.kwargs:
            if name in BINARY and len(args) == 2:
                return f"{self.operand(args[0])} {BINARY[name]} {self.operand(args[1])}"
            if name in UNARY and len(args) == 1:
                return f"{UNARY[name]}{self.operand(args[0])}"
            if name == "getitem" and len(args) == 2:
                return f"{self.value(args[0])}[{self.value(args[1])}]"
        if path == "builtins.getattr" and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return f"{self.value(args[0])}.{args[1]}"
        return f"{self.name_of(node.target)}({self.arguments(args, node.kwargs)})"

    def operand(self, value: Any) -> str:
        """An argument of an operator."""
        return self.value(value)

    def line(self, node: Node) -> str:
        """The statement of a node."""
        kind = "" if node.type is None else f" : {self.annotation(node.type)}"
        if node.op == "get_attr":
            return f"{node.name}{kind} = {self.attribute(node.target)}"
        if node.op == "call_module":
            return f"{node.name}{kind} = {self.attribute(node.target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            return f"{node.name}{kind} = {self.value(node.args[0])}.{node.target}({self.arguments(node.args[1:], node.kwargs)})"
        name = getattr(node.target, "__name__", "")
        if _qualified_name(node.target).startswith("operator.") and name in IN_PLACE and not node.kwargs:
            return f"{self.value(node.args[0])} {IN_PLACE[name]} {self.value(node.args[1])};  {node.name}{kind} = {self.value(node.args[0])}"
        return f"{node.name}{kind} = {self.call(node)}"

    def annotation(self, kind: Any) -> str:
        """A type as text."""
        if isinstance(kind, str):
            return kind
        text = _type_repr(kind)
        if isinstance(kind, type) and kind.__module__ != "builtins":
            return self.name_of(kind)
        if "." in text:
            import typing

            import torch

            self.globals.update(torch=torch, typing=typing)
            text = text.replace("flambeau.", "torch.")
        return text

    def parameter(self, node: Node) -> str:
        """An argument of the function."""
        kind = "" if node.type is None else f" : {self.annotation(node.type)}"
        default = f" = {self.value(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """The variables that are read last by each node."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(nodes):

        def read(used: Node) -> Node:
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
            return used

        map_arg((node.args, node.kwargs), read)
    return found


def write(graph: Any, root_module: str) -> PythonCode:
    """The code of a graph."""
    nodes = list(graph.nodes)
    writer = _Writer(root_module, {node.name for node in nodes})
    last, lines, parameters, result = _last_uses(nodes), [], [root_module], ""
    for node in nodes:
        if node.op == "placeholder":
            parameters.append(writer.parameter(node))
            renamed = node.name != node.target.lstrip("*")
            line = f"{node.name} = {node.target.lstrip('*')}" if renamed else ""
        elif node.op == "output":
            result = "" if node.type is None else f" -> {writer.annotation(node.type)}"
            lines.append(f"return {writer.value(node.args[0])}")
            continue
        else:
            line = writer.line(node)
        dead = [used.name for used in last.get(node, ()) if used is not node]
        dead += [] if node.users or node.op == "placeholder" else [node.name]
        if line:
            lines.append(line + (f";  {' = '.join(dead)} = None" if dead else ""))
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    wrapped = dict.fromkeys(writer.name_of(node.target) for node in nodes if node.meta.get("is_wrapped"))
    if wrapped:
        import torch

        writer.globals["torch"] = torch
    head = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in wrapped)
    source = f"\n{head}\n\ndef forward({', '.join(parameters)}){result}:\n{body}\n    "
    return PythonCode(source, writer.globals)
