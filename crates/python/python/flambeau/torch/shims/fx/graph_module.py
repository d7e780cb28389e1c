"""torch.fx.graph_module: a module that computes what a graph says, by the Python code of the graph."""

from __future__ import annotations

import copy
import linecache

from flambeau import Tensor
from flambeau.nn import Module, Parameter
from flambeau.torch.shims.fx.graph import Graph, PythonCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GraphModule", "reduce_graph_module"]

_counter = [0]
# Where passes keep attributes of the module for those that come after them.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(Module):
    """A module that has the attributes of another, and only its own code."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _compiled(code: PythonCode) -> Any:
    """The function of a graph's code. Its text is kept for tracebacks."""
    _counter[0] += 1
    name = f"<eval_with_key>.{_counter[0]}"
    scope = dict(code.globals)
    exec(compile(code.src, name, "exec"), scope)
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(keepends=True), name)
    return scope["forward"]


def _copy_attr(source: Any, target: Module, path: str) -> None:
    """Copies an attribute and the modules on its path."""
    *parents, name = path.split(".")
    for parent in parents:
        below = getattr(target, parent, None)
        if source is not None:
            source = getattr(source, parent, None)
        if not isinstance(below, Module):
            below = Module()
            target.add_module(parent, below)
        target = below
    value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value, persistent=name not in getattr(source, "_non_persistent_buffers_set", ()))
    else:
        setattr(target, name, value)


def _assign(target: Module, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if not isinstance(getattr(target, parent, None), Module):
            target.add_module(parent, Module())
        target = getattr(target, parent)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


class GraphModule(Module):
    """A module with a graph, and with the parts and tensors of another that the graph refers to."""

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Every object has a class of its own, whose `forward` is the code of its graph."""
        base = next(c for c in cls.__mro__ if "_is_graph_module_impl" not in vars(c))
        made: Any = type(base.__name__, (base,), {"_is_graph_module_impl": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self._copy_parts(root, graph)
        if isinstance(root, Module) and hasattr(root, "training"):
            self.training = root.training
        self._graph: Graph = graph
        self._code: PythonCode
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {})) if isinstance(root, Module) else {}
        self.graph = graph

    def _copy_parts(self, root: Any, graph: Graph) -> None:
        for node in graph.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            if isinstance(root, Module):
                _copy_attr(root, self, node.target)
            elif node.target not in root:
                raise RuntimeError(f"Node {node} referenced target {node.target} but that target was not provided in `root`!")
        if isinstance(root, dict):
            used = {node.target for node in graph.nodes if node.op in ("get_attr", "call_module")}
            for path in sorted(used, key=lambda path: path.count(".")):
                _assign(self, path, root[path])

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if g.owning_module is not None and g.owning_module is not self:
            g = copy.deepcopy(g)
        object.__setattr__(self, "_graph", g)
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of the graph."""
        return self._code.src

    def recompile(self) -> PythonCode:
        """Writes and compiles the code again, after the graph was changed."""
        code = self._graph.python_code("self")
        object.__setattr__(self, "_code", code)
        type(self).forward = _compiled(code)  # type: ignore[method-assign]
        return code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Adds a part under a path; False where the path leads through something that is no module."""
        *parents, name = target.split(".")
        module: Any = self
        for parent in parents:
            below = getattr(module, parent, None)
            if below is None:
                below = Module()
                module.add_module(parent, below)
            if not isinstance(below, Module):
                return False
            module = below
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes a part; False where there is none."""
        parent, _, name = target.rpartition(".")
        try:
            module = self.get_submodule(parent)
        except AttributeError:
            return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the parts that the graph does not refer to."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                names = node.target.split(".")
                used.update(".".join(names[:count]) for count in range(1, len(names) + 1))
                if node.op == "call_module":
                    used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code with the class around it."""
        lines = self.code.strip("\n").rstrip().splitlines()
        text = f"class {type(self).__name__}(torch.nn.Module):\n" + "\n".join(f"    {line}" for line in lines) + "\n"
        if print_output:
            print(text)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = Module()
        made.__dict__ = copy.deepcopy({key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}, memo)
        found = GraphModule(made, copy.deepcopy(self._graph), type(self).__name__)
        found.__dict__.update({key: value for key, value in made.__dict__.items() if key != "meta"})
        found.meta = dict(self.meta)
        memo[id(self)] = found
        return found

    def __copy__(self) -> GraphModule:
        return GraphModule(self, self.graph, type(self).__name__)

    def __reduce__(self) -> Any:
        own = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}
        own["_name"], own["_src"] = type(self).__name__, self._code.src
        own["_globals"] = {key: value for key, value in self._code.globals.items() if key not in ("torch", "operator", "typing")}
        return reduce_graph_module, (own, "")

    def __str__(self) -> str:
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self._code.src, note])


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> GraphModule:
    """A module of a pickle: its code is traced again."""
    from flambeau.torch.shims.fx._symbolic_trace import Tracer

    import operator
    import typing

    import torch  # type: ignore[import-not-found]

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    own = dict(body)
    name, source, scope = own.pop("_name"), own.pop("_src"), own.pop("_globals")
    holder: Any = type(name, (Module,), {})
    known = {"torch": torch, "operator": operator, "typing": typing, "device": torch.device, **scope}
    holder.forward = _compiled(PythonCode(source, known))
    module = holder.__new__(holder)
    module.__dict__ = own
    return GraphModule(module, KeepModules().trace(module), name)
