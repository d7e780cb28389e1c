"""Modules as containers: what they register, save, load, call and write."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.act = nn.ReLU()
        self.second = nn.Linear(4, 2, bias=False)
        self.register_buffer("count", flambeau.zeros(1))
        self.register_buffer("scratch", flambeau.zeros(1), persistent=False)

    def forward(self, x):
        return self.second(self.act(self.first(x)))


def values(tensor):
    return tensor.tolist()


def test_members_have_names_in_order():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ["first.weight", "first.bias", "second.weight"]
    assert [name for name, _ in net.named_buffers()] == ["count", "scratch"]
    assert [name for name, _ in net.named_children()] == ["first", "act", "second"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "act", "second"]
    assert list(net.state_dict()) == ["count", "first.weight", "first.bias", "second.weight"]
    assert [tuple(p.shape) for p in net.parameters()] == [(4, 3), (4,), (2, 4)]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad and p.is_leaf for p in net.parameters())


def test_shared_members_count_once():
    net = Net()
    net.third = net.second
    net.alias = net.first.weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 5
    assert len(list(net.modules())) == 4 and len(list(net.children())) == 3
    assert "third.weight" in net.state_dict() and "alias" in net.state_dict()


def test_attributes_are_registered_by_their_class():
    net = nn.Module()
    net.weight = nn.Parameter(flambeau.ones(2))
    assert "weight" in net._parameters and "weight" not in net.__dict__
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'weight'"):
        net.weight = flambeau.ones(2)
    net.weight = None
    assert net.weight is None and list(net.parameters()) == []
    net.weight = nn.Linear(1, 1)
    assert "weight" in net._modules and "weight" not in net._parameters
    net.buffer = nn.Buffer(flambeau.ones(1), persistent=False)
    assert "buffer" in net._buffers and list(net.state_dict()) == ["weight.weight", "weight.bias"]
    net.buffer = flambeau.zeros(3)
    assert "buffer" in net._buffers
    del net.weight
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'weight'"):
        net.weight
    assert "buffer" in dir(net)


def test_what_cannot_be_registered():
    net = Net()
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.register_buffer("forward", flambeau.ones(1))
    with pytest.raises(KeyError, match="can.*t contain"):
        net.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="empty string"):
        net.add_module("", nn.ReLU())
    with pytest.raises(TypeError, match="is not a Module subclass"):
        net.add_module("x", 3)
    with pytest.raises(TypeError, match="cannot assign 'int' object to buffer 'x'"):
        net.register_buffer("x", 3)
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("x", _history())

    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="cannot assign module before Module.__init__"):
        Early()


def _history():
    """A parameter that was written to with history, and so is no leaf."""
    param = nn.Parameter(flambeau.ones(1), requires_grad=False)
    param.mul_(flambeau.ones(1, requires_grad=True))
    return param


def test_paths():
    net = nn.Sequential(Net(), nn.ReLU())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.bias") is net[0].first.bias
    assert net.get_buffer("0.count") is net[0].count
    with pytest.raises(AttributeError, match="Net has no attribute `fourth`"):
        net.get_submodule("0.fourth")
    with pytest.raises(AttributeError, match="is not an nn.Module"):
        net.get_submodule("0.training")
    with pytest.raises(AttributeError):
        net.get_parameter("0.count")


def test_parts_are_exchanged():
    net = nn.Sequential(Net(), nn.ReLU())
    net.set_submodule("0.act", nn.Tanh())
    assert isinstance(net[0].act, nn.Tanh) and [name for name, _ in net[0].named_children()] == ["first", "act", "second"]
    with pytest.raises(AttributeError, match="no module `new`"):
        net.set_submodule("0.new", nn.Tanh(), strict=True)
    with pytest.raises(ValueError, match="not an nn.Module"):
        net.set_submodule("0.act", 3)
    assert net.to_empty(device="cpu")[0].first.weight.shape == (4, 3)


def test_state_goes_round():
    source, target = Net(), Net()
    source.count.fill_(7)
    kept = [id(p) for p in target.parameters()]
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert result.missing_keys == [] and result.unexpected_keys == []
    assert [id(p) for p in target.parameters()] == kept
    for name, tensor in source.state_dict().items():
        assert values(target.state_dict()[name]) == values(tensor)
    source.first.weight.data.zero_()
    assert flambeau.any(target.first.weight != 0).item()
    # A state shares its elements, and has no history.
    state = source.state_dict()
    assert not state["first.weight"].requires_grad
    state["first.weight"].fill_(3)
    assert values(source.first.weight)[0] == [3.0] * 3
    assert source.state_dict(keep_vars=True)["first.weight"] is source.first.weight


def test_states_that_do_not_fit():
    net, state = Net(), Net().state_dict()
    state["third"] = state.pop("first.bias")
    state["second.weight"] = flambeau.zeros(3, 4)
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Net:\n\t")
    assert 'Missing key(s) in state_dict: "first.bias".' in text
    assert 'Unexpected key(s) in state_dict: "third".' in text
    assert "size mismatch for second.weight: copying a param with shape" in text
    del state["second.weight"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["first.bias", "second.weight"] and result.unexpected_keys == ["third"]
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_assigned_state_replaces_the_parameters():
    net, state = Net(), {name: tensor.double() for name, tensor in Net().state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert net.first.weight.dtype == flambeau.float64 and isinstance(net.first.weight, nn.Parameter)
    assert net.count is state["count"]
    assert [name for name, _ in net.named_parameters()] == ["first.weight", "first.bias", "second.weight"]


def test_extra_state():
    class Extra(nn.Module):
        note = 0

        def get_extra_state(self):
            return self.note

        def set_extra_state(self, state):
            self.note = state

    source, target = nn.Sequential(Extra()), nn.Sequential(Extra())
    source[0].note = 5
    assert source.state_dict() == {"0._extra_state": 5}
    target.load_state_dict(source.state_dict())
    assert target[0].note == 5
    with pytest.raises(RuntimeError, match="Missing key"):
        target.load_state_dict({})


def test_forward_hooks():
    net, seen = nn.Linear(2, 2), []
    net.weight.data.copy_(flambeau.eye(2))
    net.bias.data.zero_()
    before = net.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    net.register_forward_hook(lambda module, args, out: seen.append((values(args[0]), values(out))))
    after = net.register_forward_hook(lambda module, args, out: out + 1)
    x = flambeau.tensor([[1.0, 2.0]])
    assert values(net(x)) == [[3.0, 5.0]]
    assert seen == [([[2.0, 4.0]], [[2.0, 4.0]])]
    before.remove()
    before.remove()
    assert values(net(x)) == [[2.0, 3.0]]
    after.remove()
    with net.register_forward_hook(lambda module, args, kwargs, out: out * kwargs.get("k", 3), with_kwargs=True):
        assert values(net(x)) == [[3.0, 6.0]]
    assert values(net(x)) == [[1.0, 2.0]]


def test_hooks_in_order_and_on_failure():
    class Fails(nn.Module):
        def forward(self, x, scale=1):
            if scale == 0:
                raise ValueError("nothing")
            return x * scale

    net, seen = Fails(), []
    net.register_forward_hook(lambda *args: seen.append("second"))
    net.register_forward_hook(lambda *args: seen.append("first"), prepend=True)
    net.register_forward_hook(lambda *args: seen.append("always"), always_call=True)
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {"scale": kwargs["scale"] - 1}), with_kwargs=True)
    assert net(flambeau.ones(1), scale=3).item() == 2.0
    assert seen == ["first", "second", "always"]
    seen.clear()
    with pytest.raises(ValueError, match="nothing"):
        net(flambeau.ones(1), scale=1)
    assert seen == ["always"]


def test_state_hooks():
    net = nn.Sequential(nn.Linear(1, 1))
    net[0].register_state_dict_post_hook(lambda module, state, prefix, meta: state.update({prefix + "more": 1}))
    state = net.state_dict()
    assert state["0.more"] == 1
    with pytest.raises(RuntimeError, match="Unexpected"):
        net.load_state_dict(state)
    net.register_load_state_dict_pre_hook(lambda module, state, *rest: state.pop("0.more"))
    net.load_state_dict(state)
    assert "0.more" in state
    net.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    del state["0.bias"]
    net.load_state_dict(state)


def test_modes():
    net = nn.Sequential(nn.Dropout(0.5), Net())
    assert net.eval() is net and not any(module.training for module in net.modules())
    assert net.train() is net and all(module.training for module in net.modules())
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)
    assert net.requires_grad_(False) is net and not any(p.requires_grad for p in net.parameters())
    seen = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Dropout", "Linear", "ReLU", "Linear", "Net", "Sequential"]


def test_gradients_are_cleared():
    net = Net()
    net(flambeau.ones(1, 3)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert all(values(p.grad.abs().sum()) == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_dtypes_change():
    net = Net()
    net.register_buffer("whole", flambeau.tensor([1, 2]))
    net(flambeau.ones(1, 3)).sum().backward()
    weight = values(net.first.weight)
    net.alias = net.first.weight
    assert net.double() is net and net.alias is net.first.weight
    assert net.first.weight.dtype == flambeau.float64 and values(net.first.weight) == weight
    assert net.first.weight.grad.dtype == flambeau.float64
    assert net.count.dtype == flambeau.float64 and net.whole.dtype == flambeau.int64
    assert net.to(flambeau.float32).first.weight.dtype == flambeau.float32
    assert net.to(dtype=flambeau.bfloat16).first.weight.dtype == flambeau.bfloat16
    assert net.half().first.weight.dtype == flambeau.float16 and net.float().first.bias.dtype == flambeau.float32
    assert net.to(flambeau.ones(1, dtype=flambeau.float64)).first.weight.dtype == flambeau.float64
    assert net.to("cpu", flambeau.float32).first.weight.dtype == flambeau.float32 and net.whole.dtype == flambeau.int64
    assert net.to("cpu").first.weight.is_leaf and net.first.weight.requires_grad
    with pytest.raises(TypeError, match="floating point"):
        net.to(flambeau.int64)


def check_copy(net, made, x):
    first, param = next(net.parameters()), next(made.parameters())
    assert isinstance(param, nn.Parameter) and param.requires_grad
    assert values(param) == values(first)
    param.data.zero_()
    assert flambeau.any(first != 0).item()
    assert made(x).shape == net(x).shape


def test_copies_are_apart():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))
    made = copy.deepcopy(net)
    check_copy(net, made, flambeau.ones(1, 3))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"])
def test_copies_of_buffers_are_apart(duplicate):
    net = Net()
    made = duplicate(net)
    check_copy(net, made, flambeau.ones(1, 3))
    made.count.fill_(5)
    assert net.count.item() == 0


def test_parameters():
    data = flambeau.ones(2)
    param = nn.Parameter(data, requires_grad=False)
    assert isinstance(param, flambeau.Tensor) and not param.requires_grad
    data.fill_(4)
    assert values(param) == [4.0, 4.0]
    text = repr(nn.Parameter(flambeau.ones(1)))
    assert text.startswith("Parameter containing:\n") and text.endswith("([1.], requires_grad=True)")
    assert type(nn.Parameter(flambeau.ones(1)) * 2) is flambeau.Tensor
    assert nn.Parameter().shape == (0,)


def test_texts():
    assert repr(nn.Module()) == "Module()"
    assert repr(nn.Linear(2, 3, bias=False)) == "Linear(in_features=2, out_features=3, bias=False)"
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n  (act): ReLU()\n"
        "  (second): Linear(in_features=4, out_features=2, bias=False)\n)"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Sequential(nn.Tanh())])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Sequential(\n    (0): Tanh()\n  )\n)"
    )
    assert repr(nn.ParameterList([flambeau.ones(2, 3)])) == (
        f"ParameterList(\n  (0): Parameter containing: [{flambeau.float32} of size 2x3]\n)"
    )


def test_a_module_without_forward():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)
