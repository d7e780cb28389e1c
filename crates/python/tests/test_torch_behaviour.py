"""Behaviour of PyTorch's that other people's programs rely on, each case with the kind of program it is from."""

import io

import pytest

import flambeau as fl
from flambeau import nn


def test_a_module_dict_without_arguments_updates_nothing():
    class Refuses(nn.ModuleDict):
        def update(self, modules):
            raise KeyError(modules)

    assert len(Refuses()) == 0


def test_a_module_may_hand_attributes_on():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 3)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    assert Wrapper().weight.shape == (3, 2)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        Wrapper().add_module("forward", nn.ReLU())


def test_operators_of_a_parameter_that_is_of_a_subclass_too():
    class Manifold(fl.Tensor):
        pass

    class Point(Manifold, nn.Parameter):
        pass

    assert (-Point(fl.ones(2))).tolist() == [-1.0, -1.0]


def test_file_objects():
    file = io.BytesIO()
    fl.save({"a": fl.arange(3), "n": 2}, file)
    file.seek(0)
    back = fl.load(file)
    assert back["a"].tolist() == [0, 1, 2] and back["n"] == 2


def test_pinned_memory_without_an_accelerator_is_a_warning():
    with pytest.warns(UserWarning, match="pin_memory"):
        loader = fl.utils.data.DataLoader(fl.utils.data.TensorDataset(fl.arange(4)), batch_size=2, pin_memory=True)
    assert [batch[0].tolist() for batch in loader] == [[0, 1], [2, 3]]


def test_modules_with_channels_last():
    layer = nn.Conv2d(3, 4, 3).to(memory_format=fl.channels_last)
    assert layer.weight.stride() == (27, 1, 9, 3) and layer.bias.stride() == (1,)
    x = fl.randn(1, 3, 5, 5)
    expected = fl.nn.functional.conv2d(x, layer.weight.contiguous(), layer.bias)
    assert fl.allclose(layer(x), expected, atol=1e-5)


def test_a_tuple_before_a_size_is_a_size():
    made = (1,) + fl.ones(2, 3).shape
    assert isinstance(made, fl.Size) and made == (1, 2, 3)


def test_hooks_of_all_modules():
    from flambeau.nn.module import register_module_forward_hook

    seen = []
    handle = register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__))
    nn.Sequential(nn.ReLU())(fl.ones(1))
    handle.remove()
    nn.ReLU()(fl.ones(1))
    assert seen == ["ReLU", "Sequential"]


def test_methods_that_fill_and_map():
    x = fl.zeros(3, 3)
    x.fill_diagonal_(2)
    assert x.tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    tall = fl.zeros(5, 2).fill_diagonal_(1, wrap=True)
    assert tall.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert fl.arange(3.0).apply_(lambda v: v * v).tolist() == [0, 1, 4]
    assert fl.arange(3.0).map_(fl.ones(3), lambda a, b: a - b).tolist() == [-1, 0, 1]
    assert x.new(2, 1).shape == (2, 1) and x.new([1, 2]).dtype is fl.float32 and not x.is_xpu


def test_lazy_layers_learn_their_sizes():
    with pytest.warns(UserWarning, match="Lazy modules"):
        model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    assert model(fl.randn(2, 3, 5, 5)).shape == (2, 2)
    assert type(model[0]) is nn.Conv2d and model[0].weight.shape == (4, 3, 3, 3) and type(model[3]) is nn.Linear
    assert model[1].running_mean.shape == (4,) and isinstance(model[3].weight, nn.Parameter)
    model(fl.randn(2, 3, 5, 5)).sum().backward()
    assert model[0].weight.grad is not None


def test_gradient_scaling():
    layer = nn.Linear(2, 1)
    optimizer = fl.optim.SGD(layer.parameters(), 0.1)
    scaler = fl.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    before = layer.weight.detach().clone()
    scaler.scale(layer(fl.ones(1, 2)).sum()).backward()
    assert layer.weight.grad.tolist() == [[8.0, 8.0]]
    scaler.step(optimizer)
    scaler.update()
    assert fl.allclose(layer.weight, before - 0.1) and scaler.get_scale() == 16.0
    layer.weight.grad.fill_(float("inf"))
    after = layer.weight.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert layer.weight.equal(after) and scaler.get_scale() == 8.0


def test_assert_close():
    fl.testing.assert_close([fl.ones(2)], [fl.ones(2) + 1e-7])
    for other in (fl.ones(2) + 1e-3, fl.ones(3), fl.ones(2, dtype=fl.float64)):
        with pytest.raises(AssertionError):
            fl.testing.assert_close(fl.ones(2), other)


def test_a_generator_returns_after_a_fork():
    state = fl.get_rng_state()
    with fl.random.fork_rng():
        fl.manual_seed(3)
        fl.rand(2)
    assert fl.get_rng_state().tolist() == state.tolist()


def test_samplers_of_several_processes():
    parts = [list(fl.utils.data.DistributedSampler(range(10), 4, rank, shuffle=False)) for rank in range(4)]
    assert parts == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]


def test_collating_types_of_ones_own():
    from flambeau.utils.data.collate import collate, default_collate_fn_map

    class Point:
        pass

    known = {**default_collate_fn_map, Point: lambda batch, *, collate_fn_map: len(batch)}
    assert collate([(Point(), 1), (Point(), 2)], collate_fn_map=known)[0] == 2


def test_trees():
    from collections import OrderedDict, namedtuple

    from flambeau.utils import _pytree as tree

    Pair = namedtuple("Pair", "a b")
    value = {"x": [1, (2, 3)], "y": Pair(4, OrderedDict(z=5))}
    leaves, spec = tree.tree_flatten(value)
    assert leaves == [1, 2, 3, 4, 5] and tree.tree_unflatten(leaves, spec) == value and spec.num_leaves == 5
    assert tree.tree_map(lambda a, b: a + b, value, value)["y"].b["z"] == 10
    paths = [tree.keystr(path) for path, _ in tree.tree_leaves_with_path(value)]
    assert paths == ["['x'][0]", "['x'][1][0]", "['x'][1][1]", "['y'].a", "['y'].b['z']"]
    with pytest.raises(ValueError):
        tree.tree_map(lambda a, b: a, [1, 2], [1])


def test_bytes_in_an_archive_are_read():
    from flambeau.torch.shims import serialization

    file = io.BytesIO()
    serialization.save({"state": bytes(range(256))}, file)
    file.seek(0)
    assert serialization.load(file) == {"state": bytes(range(256))}
