"""torch.fx: a program as a graph of its calls, which can be changed and run."""

from __future__ import annotations

from flambeau.torch.shims.fx._symbolic_trace import PH as PH, ProxyableClassMeta as ProxyableClassMeta, Tracer as Tracer
from flambeau.torch.shims.fx._symbolic_trace import symbolic_trace as symbolic_trace, wrap as wrap
from flambeau.torch.shims.fx.graph import CodeGen as CodeGen, Graph as Graph
from flambeau.torch.shims.fx.graph_module import GraphModule as GraphModule
from flambeau.torch.shims.fx.interpreter import Interpreter as Interpreter, Transformer as Transformer
from flambeau.torch.shims.fx.node import Node as Node, has_side_effect as has_side_effect, map_arg as map_arg
from flambeau.torch.shims.fx.proxy import Proxy as Proxy
from flambeau.torch.shims.fx.subgraph_rewriter import replace_pattern as replace_pattern
