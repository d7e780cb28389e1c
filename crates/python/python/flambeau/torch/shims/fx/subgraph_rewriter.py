"""torch.fx.subgraph_rewriter: replaces every part of a graph that looks like a pattern."""

from __future__ import annotations

from flambeau.torch.shims.fx._symbolic_trace import symbolic_trace
from flambeau.torch.shims.fx.graph import Graph
from flambeau.torch.shims.fx.graph_module import GraphModule
from flambeau.torch.shims.fx.node import Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple

    class Match(NamedTuple):
        """Which node of the graph the pattern ended at, and which nodes its nodes are."""

        anchor: Node
        nodes_map: dict[Node, Node]
else:
    from collections import namedtuple

    Match = namedtuple("Match", "anchor nodes_map")

__all__ = ["Match", "replace_pattern"]


def _graph(value: Any) -> Graph:
    return value if isinstance(value, Graph) else value.graph if isinstance(value, GraphModule) else symbolic_trace(value).graph


class _Matcher:
    """Compares a node of a graph and those that it reads with a pattern."""

    def __init__(self) -> None:
        self.nodes: dict[Node, Node] = {}

    def same(self, pattern: Any, found: Any) -> bool:
        """Whether two arguments are the same, where inputs of the pattern stand for anything."""
        if isinstance(pattern, Node):
            return isinstance(found, Node) and self.node(pattern, found) if pattern.op != "placeholder" else self._input(pattern, found)
        if isinstance(pattern, (list, tuple)):
            return isinstance(found, (list, tuple)) and len(pattern) == len(found) and all(map(self.same, pattern, found))
        if isinstance(pattern, dict):
            return isinstance(found, dict) and pattern.keys() == found.keys() and all(self.same(pattern[key], found[key]) for key in pattern)
        return type(pattern) is type(found) and bool(pattern == found)

    def _input(self, pattern: Node, found: Any) -> bool:
        known = self.nodes.setdefault(pattern, found)
        return known is found or (not isinstance(found, Node) and known == found)

    def node(self, pattern: Node, found: Node) -> bool:
        """Whether two nodes do the same."""
        if pattern in self.nodes:
            return self.nodes[pattern] is found
        if pattern.op != found.op or pattern.target != found.target:
            return False
        self.nodes[pattern] = found
        return self.same(pattern.args, found.args) and self.same(pattern.kwargs, found.kwargs)


def _match(pattern: Graph, node: Node) -> dict[Node, Node] | None:
    """The nodes of the pattern in the graph where it ends at a node, if it does and only its result is read elsewhere."""
    result = next(n for n in reversed(pattern.nodes) if n.op == "output").args[0]
    matcher = _Matcher()
    if not isinstance(result, Node) or not matcher.node(result, node):
        return None
    inner = {found for part, found in matcher.nodes.items() if part.op not in ("placeholder", "get_attr") and part is not result}
    inside = {found for found in matcher.nodes.values() if isinstance(found, Node)}
    return matcher.nodes if all(user in inside for found in inner for user in found.users) else None


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replaces every part of the module's graph that does what `pattern` does by what `replacement` does."""
    requested, given, found = _graph(pattern), _graph(replacement), []
    for node in list(gm.graph.nodes):
        nodes = None if node._erased or node.op in ("placeholder", "output") else _match(requested, node)
        if nodes is None:
            continue
        inputs = [nodes.get(n) for n in requested.nodes if n.op == "placeholder"]
        values: dict[Node, Any] = dict(zip((n for n in given.nodes if n.op == "placeholder"), inputs))
        with gm.graph.inserting_before(node):
            made = gm.graph.graph_copy(given, values)
        node.replace_all_uses_with(made)
        found.append(Match(node, nodes))
        inside = {n for part, n in nodes.items() if part.op not in ("placeholder",) and isinstance(n, Node)}
        for old in reversed([n for n in gm.graph.nodes if n in inside]):
            if not old.users:
                gm.graph.erase_node(old)
    gm.recompile()
    return found
