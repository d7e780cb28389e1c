"""Symbolic tracing: the code of graphs, what they compute, and how they are changed."""

import copy
import json
import operator
import pickle

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.functional import softmax

torch.set_default_dtype(torch.float64)
FOUND = {}


def added_twice(x, y):
    return x + y + y if x.sum() > 0 else y


fx.wrap("added_twice")


@fx.wrap
def decorated(x):
    return x * 2 if x.dim() == 2 else x


def weights(module):
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) + 0.1 * number)
    return module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 4)
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5))
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x, y=None, *, k: float = 2.0):
        h = F.relu(self.lin(x)) + self.scale * 2 - self.shift
        h = self.seq(h)[:, 1:]
        h = -h.view(h.size(0), -1).mean(1, keepdim=True)
        h += 1
        z = torch.cat([h, h.neg()], dim=1).clamp(min=0.0)
        first, second = softmax(z, dim=1).split(1, dim=1)
        z = torch.mm(decorated(added_twice(z, second)), torch.eye(2)) + torch.tensor([1.0, 2.0])
        return {"a": z**2, "b": (z.shape[0], z @ first), "c": F.max_pool2d(z[None], 2)}


class Variadic(nn.Module):
    def forward(self, x, flag=True, opt=None, *args, **named):
        if flag:
            x = x + 1
        a, b = x.split(1)
        return a if opt is None else b


x = torch.linspace(-1, 2, 6).reshape(2, 3)
net = weights(Net()).eval()
traced = fx.symbolic_trace(net)
traced.graph.lint()


def values(result):
    return [result["a"].tolist(), result["b"][0], result["b"][1].tolist(), result["c"].tolist()]


FOUND["code"] = traced.code
FOUND["graph"] = str(traced.graph)
FOUND["nodes"] = [[n.name, n.op, len(n.users), [m.name for m in n.all_input_nodes]] for n in traced.graph.nodes]
FOUND["text"] = str(traced)
FOUND["same"] = values(net(x)) == values(traced(x))
FOUND["result"] = values(traced(x))
FOUND["interpreted"] = values(fx.Interpreter(traced).run(x))
FOUND["names"] = sorted(name for name, _ in traced.named_parameters()) + sorted(name for name, _ in traced.named_buffers())
FOUND["copied"] = [copy.deepcopy(traced).code == traced.code, values(copy.deepcopy(traced)(x)) == values(traced(x))]
variadic = fx.symbolic_trace(Variadic(), concrete_args={"flag": True, "opt": None})
FOUND["variadic"] = variadic.code
FOUND["specialised"] = variadic(x).tolist()
try:
    variadic(x, False)
except AssertionError as error:
    FOUND["refused"] = str(error)

function = fx.symbolic_trace(lambda a, b: torch.add(a, b).relu() * 3 / b)
FOUND["function"] = [function.code, function(x, x + 4).tolist()]

# Every addition becomes a product.
changed = copy.deepcopy(function)
for node in list(changed.graph.nodes):
    if node.target is torch.add:
        with changed.graph.inserting_after(node):
            new = changed.graph.call_function(torch.mul, node.args, node.kwargs)
            node.replace_all_uses_with(new)
        changed.graph.erase_node(node)
changed.graph.lint()
changed.recompile()
FOUND["changed"] = [changed.code, changed(x, x + 4).tolist()]


class Negated(fx.Transformer):
    def call_method(self, target, args, kwargs):
        return super().call_method("neg" if target == "relu" else target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return super().call_function(operator.sub if target is operator.mul else target, args, kwargs)


transformed = Negated(function).transform()
FOUND["transformed"] = [transformed.code, transformed(x, x + 4).tolist()]

graph = fx.Graph()
a = graph.placeholder("a")
b = graph.get_attr("weight")
unused = graph.call_function(torch.sin, (a,))
c = graph.call_module("act", (graph.call_function(operator.add, (a, b)),))
d = graph.call_method("sum", (c,), {"dim": 0})
graph.output((d, [c], {"k": slice(1, None), "f": float("inf"), "t": torch.float32, "d": torch.device("cpu")}))

made = fx.GraphModule({"weight": torch.ones(3), "act": nn.Tanh()}, graph, "Made")
FOUND["made"] = [made.code, type(made).__name__, made(x)[0].tolist(), repr(made(x)[2]["t"])]
made.add_submodule("inner.deep", nn.Linear(2, 2))
made.delete_all_unused_submodules()
FOUND["parts"] = sorted(name for name, _ in made.named_modules())

pattern = fx.symbolic_trace(lambda x: torch.relu(x + 1) * torch.relu(x + 2))
matches = fx.replace_pattern(pattern, lambda a: torch.relu(a), lambda a: torch.tanh(a) + 3)
FOUND["replaced"] = [len(matches), pattern(x).tolist()]

stored = pickle.loads(pickle.dumps(fx.symbolic_trace(weights(nn.Sequential(nn.Linear(3, 2), nn.ReLU())))))
FOUND["pickled"] = [stored.code, stored(x).tolist()]

for name, broken in {
    "control": lambda x: x if x.sum() > 0 else -x,
    "len": lambda x: len(x),
    "loop": lambda x: [y for y in x],
    "set": lambda x: operator.setitem(x, 0, 1),
}.items():
    try:
        fx.symbolic_trace(broken)
        FOUND[name] = "traced"
    except Exception as error:
        FOUND[name] = [type(error).__name__, str(error)]


class Leaves(fx.Tracer):
    def is_leaf_module(self, m, name):
        return isinstance(m, nn.Sequential) or super().is_leaf_module(m, name)


FOUND["leaves"] = [str(n.target) for n in Leaves().trace(net).nodes if n.op == "call_module"]
print(json.dumps(FOUND))
