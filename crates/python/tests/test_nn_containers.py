"""Modules and parameters in order and by name behave as lists and dicts do."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def kinds(modules):
    return [type(module).__name__ for module in modules]


def test_sequential_by_number():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(net) == 3 and net[0] is net._modules["0"] and net[-1].in_features == 3
    assert kinds(net[:2]) == ["Linear", "ReLU"] and isinstance(net[:2], nn.Sequential)
    assert net(flambeau.ones(5, 2)).shape == (5, 1)
    net[1] = nn.Tanh()
    net.append(nn.Sigmoid()).insert(0, nn.Identity())
    assert kinds(net) == ["Identity", "Linear", "Tanh", "Linear", "Sigmoid"]
    assert list(net._modules) == ["0", "1", "2", "3", "4"]
    del net[0]
    assert kinds(net) == ["Linear", "Tanh", "Linear", "Sigmoid"] and list(net._modules) == ["0", "1", "2", "3"]
    assert kinds([net.pop(-1)]) == ["Sigmoid"] and len(net) == 3
    net.extend([nn.GELU()])
    assert kinds(net + nn.Sequential(nn.ReLU())) == ["Linear", "Tanh", "Linear", "GELU", "ReLU"]
    assert kinds(nn.Sequential(nn.ReLU()) * 2) == ["ReLU", "ReLU"]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        net[9]
    with pytest.raises(TypeError, match="not a Module subclass"):
        nn.Sequential(3)


def test_sequential_by_name():
    net = nn.Sequential(OrderedDict(one=nn.Linear(2, 3), two=nn.ReLU()))
    assert net.one.out_features == 3 and list(net.state_dict()) == ["one.weight", "one.bias"]
    assert list(net[1:]._modules) == ["two"]
    del net[0]
    assert list(net._modules) == ["0"] and kinds(net) == ["ReLU"]


def test_module_list():
    modules = nn.ModuleList([nn.Linear(1, 1), nn.ReLU()])
    modules.append(nn.Tanh())
    modules.extend([nn.GELU(), nn.SiLU()])
    modules.insert(1, nn.Identity())
    assert kinds(modules) == ["Linear", "Identity", "ReLU", "Tanh", "GELU", "SiLU"]
    assert kinds(modules[1:3]) == ["Identity", "ReLU"] and isinstance(modules[1:3], nn.ModuleList)
    modules[0] = nn.Mish()
    del modules[1]
    assert kinds([modules.pop(0)]) == ["Mish"]
    modules += [nn.ELU()]
    assert kinds(modules + [nn.SELU()]) == ["ReLU", "Tanh", "GELU", "SiLU", "ELU", "SELU"]
    del modules[1:3]
    assert kinds(modules) == ["ReLU", "SiLU", "ELU"] and list(modules._modules) == ["0", "1", "2"]
    with pytest.raises(TypeError, match="iterable"):
        modules.extend(3)


def test_module_dict():
    modules = nn.ModuleDict({"a": nn.ReLU()})
    modules["b"] = nn.Tanh()
    modules.update([("c", nn.GELU())])
    assert list(modules) == list(modules.keys()) == ["a", "b", "c"] and "b" in modules and len(modules) == 3
    assert kinds([modules.pop("a")]) == ["ReLU"]
    del modules["b"]
    assert kinds(modules.values()) == ["GELU"] and [name for name, _ in modules.items()] == ["c"]
    modules.clear()
    assert len(modules) == 0
    with pytest.raises(KeyError):
        modules["a"]


def test_parameter_list():
    params = nn.ParameterList([flambeau.ones(1), nn.Parameter(flambeau.ones(2))])
    params.append(flambeau.ones(3))
    assert len(params) == 3 and all(isinstance(p, nn.Parameter) for p in params)
    assert [tuple(p.shape) for p in params.parameters()] == [(1,), (2,), (3,)]
    assert list(params.state_dict()) == ["0", "1", "2"]
    params[1] = flambeau.ones(5)
    assert params[-2].shape == (5,) and len(params[1:]) == 2
    with pytest.raises(RuntimeError, match="should not be called"):
        params()


def test_parameter_dict():
    params = nn.ParameterDict({"a": flambeau.ones(1)})
    params["b"] = flambeau.ones(2)
    assert list(params) == ["a", "b"] and isinstance(params["b"], nn.Parameter) and params.get("c") is None
    assert params.setdefault("c", flambeau.ones(3)).shape == (3,)
    assert [tuple(p.shape) for p in params.parameters()] == [(1,), (2,), (3,)]
    assert params.pop("a").shape == (1,) and "a" not in params and len(params) == 2
    del params["b"]
    assert [name for name, _ in params.named_parameters()] == ["c"]
    params.clear()
    assert list(params.parameters()) == []
