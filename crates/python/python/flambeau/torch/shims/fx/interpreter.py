"""torch.fx.interpreter: runs a graph node by node, or rewrites it so."""

from __future__ import annotations

from flambeau.torch.shims.fx.graph import Graph
from flambeau.torch.shims.fx.graph_module import GraphModule
from flambeau.torch.shims.fx.node import Node, map_arg
from flambeau.torch.shims.fx.proxy import GraphAppendingTracer, Proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module. Subclasses change what single nodes do."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.graph = module, graph if graph is not None else module.graph
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.garbage_collect_values = garbage_collect_values
        self.name, self.extra_traceback = "Interpreter", True
        self._last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(list(self.graph.nodes)):
            for read in node.all_input_nodes:
                if read not in seen:
                    seen.add(read)
                    self._last.setdefault(node, []).append(read)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The result for these arguments."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for read in self._last.get(node, ()):
                    self.env.pop(read, None)
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """The result; the list of arguments is emptied, so that nothing else owns them."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The result of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument, or the default."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result of a method of the first argument."""
        first, *rest = args
        return getattr(first, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result of a part of the module."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result of the graph."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module, by its path."""
        value = self.module
        for number, name in enumerate(target.split(".")):
            if not hasattr(value, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(target.split('.')[: number + 1])}")
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """The values of the nodes in a nest."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues")
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Writes a new graph by running the old one with proxies."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = GraphAppendingTracer(self.new_graph)
        self.tracer.root = module  # type: ignore[attr-defined]

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An argument of the new graph."""
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The call of a part in the new graph."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The call of a function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The call of a method in the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        found = super().run()
        self.new_graph.output(map_proxies(found))
        return GraphModule(self.module, self.new_graph)

    def run(self, *args: Any, **options: Any) -> Any:
        """The proxies of the result."""
        return super().run(*args, **options)


def map_proxies(value: Any) -> Any:
    """A nest of proxies as one of nodes."""
    from flambeau.torch.shims.fx.node import map_aggregate

    return map_aggregate(value, lambda item: item.node if isinstance(item, Proxy) else item)
