"""`flambeau.compile`: the same bits as without it, and what it refuses."""

import copy

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def gelu(x, scale=0.5):
    return scale * x * (1 + fl.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def test_a_chain_is_one_loop_with_the_same_bits():
    compiled = fl.compile(gelu)
    x = fl.randn(1000)
    same(compiled(x), gelu(x))
    same(compiled(x, scale=2.0), gelu(x, scale=2.0))
    text = compiled.explain(x)
    assert text.startswith("compiled in") and text.count("one loop over [1000]") == 1 and "by itself" not in text
    assert len(compiled._plans) == 2


def test_gradients():
    compiled = fl.compile(gelu)
    x, y = (fl.linspace(-4, 4, 101).requires_grad_() for _ in range(2))
    compiled(x).sum().backward()
    gelu(y).sum().backward()
    same(x.grad, y.grad)


def test_nested_results_and_constants():
    @fl.compile
    def step(state, rate):
        return {"p": state["p"] - rate * state["g"], "m": (state["m"] * 0.9, rate, None)}

    state = {"p": fl.ones(3), "g": fl.full((3,), 2.0), "m": fl.ones(3)}
    for rate in (0.5, 0.25, 0.5):
        out = step(state, rate)
        assert out["p"].tolist() == [1 - rate * 2] * 3 and out["m"][1:] == (rate, None)


def test_a_branch_on_elements_runs_as_written():
    @fl.compile
    def signed(x):
        return x * 2 if x.sum() > 0 else x * 3

    assert signed(fl.ones(3)).tolist() == [2.0] * 3
    assert signed(-fl.ones(3)).tolist() == [-3.0] * 3
    assert signed.explain(fl.ones(3)).startswith("runs as written")


def test_numbers_that_the_function_names_are_seen():
    scale = 2.0

    @fl.compile
    def scaled(x):
        return x * scale

    assert scaled(fl.ones(2)).tolist() == [2.0, 2.0]
    scale = 3.0
    assert scaled(fl.ones(2)).tolist() == [3.0, 3.0]


def test_tensors_made_of_python_numbers_run_as_written():
    count = [0]

    @fl.compile
    def counted(x):
        count[0] += 1
        return x * fl.tensor([float(count[0])])

    first, second = counted(fl.ones(1)), counted(fl.ones(1))
    assert first.tolist() != second.tolist()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(fl.tanh(self.linear(x)) * 2)


def test_modules():
    net = Net()
    written = copy.deepcopy(net)
    net = fl.compile(net)
    x = fl.randn(5, 8)
    net.eval(), written.eval()
    same(net(x), written(x))
    net(x).sum().backward()
    written(x).sum().backward()
    for p, q in zip(net.parameters(), written.parameters()):
        same(p.grad, q.grad)
    net.train(), written.train()
    fl.manual_seed(3)
    made = net(x)
    fl.manual_seed(3)
    same(made, written(x))
    with fl.no_grad():
        net.linear.weight.mul_(2.0), written.linear.weight.mul_(2.0)
    net.eval(), written.eval()
    same(net(x), written(x))
    assert not (copy.deepcopy(net)(x) - net(x)).any()


def test_errors_are_those_of_the_function():
    @fl.compile
    def wrong(x):
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        wrong(fl.ones(2))


def test_it_is_the_function_of_programs_for_pytorch():
    import flambeau.torch.shims.top as torch

    assert isinstance(torch.compile(gelu), type(fl.compile(gelu)))
    assert torch.compile(gelu, backend="eager") is gelu
    same(torch.compile(fullgraph=True)(gelu)(fl.ones(4)), gelu(fl.ones(4)))


SCALE = 2.0


def scaled(x):
    return x * SCALE + 1


def through_a_helper(x):
    return scaled(x).relu()


class Tempered(fl.nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = 1.0

    def forward(self, x):
        return self.tempered(x).exp()

    def tempered(self, x):
        return x / self.temperature


class Counting(fl.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * self.count


def test_what_a_function_reads_is_seen_through_the_functions_that_it_calls(monkeypatch):
    x = fl.linspace(-1, 1, 37)
    compiled = fl.compile(through_a_helper)
    assert fl.equal(compiled(x), through_a_helper(x))
    monkeypatch.setitem(globals(), "SCALE", -3.0)
    assert fl.equal(compiled(x), (x * -3 + 1).relu())


def test_attributes_of_modules_are_seen():
    x, module = fl.linspace(-1, 1, 37), Tempered()
    compiled = fl.compile(lambda x: module(x))
    assert "loop" in compiled.explain(x)
    assert fl.equal(compiled(x), x.exp())
    module.temperature = 4.0
    assert fl.equal(compiled(x), (x / 4).exp())
    module.temperature = [4.0]
    assert "list" in compiled.explain(x)


def test_functions_with_effects_run_as_written():
    x, module = fl.ones(3), Counting()
    compiled = fl.compile(lambda x: module(x))
    assert "writes" in compiled.explain(x)
    assert [compiled(x)[0].item() for _ in range(3)] == [1, 2, 3]

    def printed(x):
        print("called")
        return x + 1

    assert "print()" in fl.compile(printed).explain(x)
