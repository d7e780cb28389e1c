"""Wrapper classes and modes: `__torch_dispatch__` below autograd."""

import copy
import gc
import io
import pickle
import threading
import weakref

import pytest
from wrapper_classes import LOG, LazyCast, LoggingMode, LoggingTensor, TwoTensor

import flambeau as fl
from flambeau import nn, optim
from flambeau.torch.shims.overrides import TorchFunctionMode
from flambeau.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    is_in_torch_dispatch_mode,
    is_traceable_wrapper_subclass,
    transform_subclass,
)
from flambeau.utils.flop_counter import FlopCounterMode

aten = fl.ops.aten


def names(log):
    return [func.name() for func in log]


def network(seed=0):
    fl.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 1))


def wrapped(model, wrap):
    """The same network with wrappers for parameters."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            module._parameters[name] = nn.Parameter(wrap(parameter.detach().clone()))
    return model


def trained(model, inputs, target, steps=5, make=lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9)):
    optimizer = make(list(model.parameters()))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((model(inputs) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


def plain_of(tensor, name):
    return getattr(tensor, name) if hasattr(tensor, name) else tensor


@pytest.fixture(autouse=True)
def empty_log():
    LOG.clear()


@pytest.fixture
def data():
    fl.manual_seed(7)
    return fl.randn(6, 4), fl.randn(6, 1)


# Wrappers.


def test_a_wrapper_has_a_geometry_and_no_elements():
    x = TwoTensor(fl.ones(2, 3), fl.zeros(2, 3))
    assert type(x) is TwoTensor and x.shape == (2, 3) and x.stride() == (3, 1) and x.dtype == fl.float32 and x.device == fl.device("cpu")
    with pytest.raises(TypeError, match="without elements of its own"):
        x.numpy()
    with pytest.raises(RuntimeError):
        x.tolist()
    assert repr(x) == "TwoTensor(size=[2, 3], dtype=flambeau.float32, device='cpu')"


def test_strides_offset_and_dtype_of_a_wrapper_are_those_given():
    class Any(fl.Tensor):
        __torch_function__ = None
        __torch_dispatch__ = classmethod(lambda cls, func, types, args=(), kwargs=None: NotImplemented)

    x = fl.Tensor._make_wrapper_subclass(Any, (2, 3), strides=(1, 2), storage_offset=5, dtype=fl.float64, requires_grad=True)
    assert (x.stride(), x.storage_offset(), x.dtype, x.requires_grad) == ((1, 2), 5, fl.float64, True)
    with pytest.raises(TypeError, match="aten::.*NotImplemented|Multiple dispatch failed"):
        x.neg()
    with pytest.raises(RuntimeError):
        fl.Tensor._make_wrapper_subclass(Any, (-1,))
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        fl.Tensor._make_wrapper_subclass(fl.Tensor, (1,))


def test_operators_are_overload_objects_with_pytorchs_names():
    x = LoggingTensor(fl.ones(2, 2))
    x + x
    x + 1
    x @ x
    x.add_(x, alpha=2)
    assert names(LOG) == ["aten::add.Tensor", "aten::add.Tensor", "aten::mm", "aten::add_.Tensor"]
    assert LOG[2] is aten.mm.default and LOG[2] == aten.mm.default and hash(LOG[2]) == hash(aten.mm.default)
    assert LOG[0]._schema.name == "aten::add" and LOG[0]._schema.overload_name == "Tensor"
    assert str(LOG[0]) == "aten.add.Tensor" and LOG[0].overloadpacket is aten.add


def test_arguments_arrive_as_pytorch_passes_them():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func.name(), args[1:], kwargs))
            return func(*args, **(kwargs or {}))

    x = fl.ones(2, 3)
    with Mode():
        fl.add(x, 2, alpha=3)
        fl.add(x, x)
        x.sum(1, keepdim=True)
        fl.zeros_like(x, dtype=fl.float64)
    assert seen[0] == ("aten::add.Tensor", (2,), {"alpha": 3})
    assert seen[1][2] == {} and seen[1][1][0] is x
    assert seen[2][:2] == ("aten::sum.dim_IntList", ([1], True))
    assert seen[3][2]["dtype"] is fl.float64


def test_results_equal_plain_ones(data):
    inputs, target = data
    plain = trained(network(), inputs, target)
    for wrap, part in ((LoggingTensor, "elem"), (lambda t: TwoTensor(t, t.clone()), "a")):
        model = wrapped(network(), wrap)
        losses = trained(model, inputs, target)
        for ours, theirs in zip(losses, plain):
            assert fl.equal(plain_of(ours, part).detach(), theirs.detach())
        assert all(isinstance(p, nn.Parameter) and type(p) is not nn.Parameter for p in model.parameters())


def test_a_logging_tensor_trains_to_the_same_bits(data):
    inputs, target = data
    losses = trained(wrapped(network(), LoggingTensor), inputs, target)
    assert {"aten::addmm", "aten::mm", "aten::add_.Tensor"} <= set(names(LOG))
    for ours, theirs in zip(losses, trained(network(), inputs, target)):
        assert ours.elem.tolist() == theirs.tolist()


def test_two_tensors_train_apart(data):
    inputs, target = data
    first, second = network(1), network(2)
    model = network(1)
    for (name, a), b in zip(list(first.named_parameters()), second.parameters()):
        module = model.get_submodule(name.rpartition(".")[0])
        module._parameters[name.rpartition(".")[2]] = nn.Parameter(TwoTensor(a.detach().clone(), b.detach().clone()))
    make = lambda ps: optim.Adam(ps, lr=0.05)
    losses = trained(model, inputs, target, make=make)
    expected = trained(first, inputs, target, make=make), trained(second, inputs, target, make=make)
    for step, loss in enumerate(losses):
        assert fl.allclose(loss.a, expected[0][step].detach()) and fl.allclose(loss.b, expected[1][step].detach())


def test_a_lazy_cast_trains_in_two_precisions(data):
    inputs, target = data
    model = wrapped(network(), lambda t: LazyCast(t.double()))
    losses = trained(model, inputs, target, make=lambda ps: optim.SGD(ps, lr=0.1))
    plain = trained(network(), inputs, target, make=lambda ps: optim.SGD(ps, lr=0.1))
    assert all(p.stored.dtype == fl.float64 and p.dtype == fl.float32 for p in model.parameters())
    for ours, theirs in zip(losses, plain):
        assert fl.allclose(ours, theirs, atol=1e-6)


def test_autograd_records_the_wrapper_itself():
    x = LoggingTensor(fl.tensor([1.0, 2.0, 3.0]), requires_grad=True)
    y = (x * x).sum()
    assert type(y) is LoggingTensor and y.requires_grad and y.grad_fn.name().startswith("Sum")
    y.backward()
    assert type(x.grad) is LoggingTensor and x.grad.elem.tolist() == [2.0, 4.0, 6.0]
    (x * x).sum().backward()
    assert x.grad.elem.tolist() == [4.0, 8.0, 12.0]


def test_gradients_that_meet_are_summed_by_operators():
    x = TwoTensor(fl.tensor([1.0, 2.0]), fl.tensor([3.0, 4.0])).requires_grad_()
    y = x * 2
    (y * y + y.exp()).sum().backward()
    for part, values in (("a", [1.0, 2.0]), ("b", [3.0, 4.0])):
        plain = fl.tensor(values, requires_grad=True)
        z = plain * 2
        (z * z + z.exp()).sum().backward()
        assert fl.allclose(getattr(x.grad, part), plain.grad)


def test_second_derivatives_go_through_wrappers():
    x = TwoTensor(fl.tensor([0.5, 2.0]), fl.tensor([1.0, 3.0])).requires_grad_()
    (first,) = fl.autograd.grad((x.exp() * x).sum(), x, create_graph=True)
    assert type(first) is TwoTensor and first.requires_grad
    (second,) = fl.autograd.grad(first.sum(), x)
    expected = lambda v: v.exp() * (2 + v)
    assert fl.allclose(second.a, expected(x.a)) and fl.allclose(second.b, expected(x.b))


def test_a_write_after_saving_is_noticed():
    x = LoggingTensor(fl.tensor([1.0, 2.0]), requires_grad=True)
    y = x * 1
    z = y * y
    with fl.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_writes_in_place_return_the_object_itself():
    x = LoggingTensor(fl.ones(3))
    y = x.mul_(2)
    assert y is x and x.elem.tolist() == [2.0, 2.0, 2.0]
    out = LoggingTensor(fl.empty(3))
    assert fl.add(x, x, out=out) is out and out.elem.tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("needs_grad", [False, True])
def test_implicit_composites_are_taken_apart(needs_grad):
    x = LoggingTensor(fl.randn(2, 3), requires_grad=needs_grad)
    weight, bias = LoggingTensor(fl.randn(4, 3), requires_grad=needs_grad), LoggingTensor(fl.randn(4))
    LOG.clear()
    out = nn.functional.linear(x, weight, bias)
    assert names(LOG)[:2] == ["aten::t", "aten::addmm"] and out.shape == (2, 4)
    LOG.clear()
    x.softmax(1)
    assert "aten::softmax.int" not in names(LOG) and "aten::_softmax" in names(LOG)


def test_three_dimensions_through_linear():
    fl.manual_seed(0)
    layer = nn.Linear(3, 4)
    x = fl.randn(2, 5, 3)
    expected = layer(x)
    expected.sum().backward()
    model = wrapped(copy.deepcopy(layer), LoggingTensor)
    out = model(x)
    assert fl.allclose(out.elem, expected.detach(), atol=1e-6)
    out.sum().backward()
    assert fl.allclose(model.weight.grad.elem, layer.weight.grad, atol=1e-5)


def test_numbers_of_a_wrapper_come_from_its_class():
    class Seven(fl.Tensor):
        __torch_function__ = None

        @staticmethod
        def __new__(cls):
            return fl.Tensor._make_wrapper_subclass(cls, ())

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            assert func is aten._local_scalar_dense.default
            return 7.0

    assert Seven().item() == 7.0 and float(Seven()) == 7.0 and bool(Seven())


def test_subclasses_are_called_before_their_bases():
    called = []

    class Base(fl.Tensor):
        __torch_function__ = None

        @staticmethod
        def __new__(cls):
            return fl.Tensor._make_wrapper_subclass(cls, (2,))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            called.append((cls, set(types)))
            return NotImplemented if cls is Derived else fl.ones(2)

    class Derived(Base):
        pass

    assert fl.add(Base(), Derived()).tolist() == [1.0, 1.0]
    assert called == [(Derived, {Base, Derived}), (Base, {Base, Derived})]


def test_a_subclass_with_elements_of_its_own():
    seen = []

    class Own(fl.Tensor):
        __torch_function__ = None

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = fl.Tensor._make_subclass(Own, fl.tensor([1.0, 2.0]))
    assert type(x) is Own and seen == []
    y = x * 2 + 1
    assert type(y) is fl.Tensor and y.tolist() == [3.0, 5.0] and seen == ["aten::mul.Tensor"]
    z = fl.tensor([4.0], requires_grad=True).as_subclass(Own)
    (z * z).sum().backward()
    assert "aten::mul.Tensor" in seen[1:] and z.grad_fn is not None


def test_exceptions_of_a_class_arrive_as_they_are():
    class Failing(fl.Tensor):
        __torch_function__ = None

        @staticmethod
        def __new__(cls):
            return fl.Tensor._make_wrapper_subclass(cls, (2,))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Failing() + 1
    with pytest.raises(KeyError, match="mine"):
        fl.nn.functional.linear(Failing(), Failing())


def test_a_class_that_returns_nonsense_is_an_error():
    class Odd(fl.Tensor):
        __torch_function__ = None

        @staticmethod
        def __new__(cls):
            return fl.Tensor._make_wrapper_subclass(cls, (2,))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return "text" if func is aten.neg.default else None

    with pytest.raises(RuntimeError, match="expected a result of type 'Tensor'"):
        Odd().neg()
    with pytest.raises(RuntimeError, match="expected a result of type 'Tensor'|expected .* results"):
        Odd().exp()


def test_deep_copies_pickles_and_state_dicts():
    model = wrapped(network(), lambda t: TwoTensor(t, t + 1))
    again = copy.deepcopy(model)
    for mine, other in zip(model.parameters(), again.parameters()):
        assert type(other) is TwoTensor and isinstance(other, nn.Parameter) and other.requires_grad
        assert fl.equal(mine.a, other.a) and fl.equal(mine.b, other.b) and other.a is not mine.a
        with fl.no_grad():
            other.add_(1)
        assert not fl.equal(mine.a, other.a)
    state = model.state_dict()
    assert all(type(value) is TwoTensor for value in state.values())
    again.load_state_dict(state)
    for mine, other in zip(model.parameters(), again.parameters()):
        assert fl.equal(mine.a, other.a) and fl.equal(mine.b, other.b)
    x = pickle.loads(pickle.dumps(TwoTensor(fl.ones(2), fl.zeros(2), requires_grad=True)))
    assert type(x) is TwoTensor and x.requires_grad and x.a.tolist() == [1.0, 1.0] and x.b.tolist() == [0.0, 0.0]


def test_a_class_and_attributes_survive_while_rust_has_the_tensor():
    x = LoggingTensor(fl.ones(2), requires_grad=True)
    y = x.exp()
    z = y * y
    identity = weakref.ref(y)
    del y
    gc.collect()
    assert identity() is None
    z.sum().backward()
    assert fl.allclose(x.grad.elem, 2 * fl.ones(2).exp() ** 2)


def test_wrappers_are_freed():
    alive = []
    for _ in range(3):
        x = TwoTensor(fl.ones(2), fl.ones(2)).requires_grad_()
        y = (x.exp() * x).sum()
        y.backward()
        alive.append(weakref.ref(x))
        del x, y
    gc.collect()
    assert [ref() for ref in alive] == [None, None, None]


def test_flattening_and_transforming():
    x = TwoTensor(fl.ones(2), fl.zeros(2))
    assert is_traceable_wrapper_subclass(x) and not is_traceable_wrapper_subclass(fl.ones(1))
    doubled = transform_subclass(x, lambda name, t: t * 2 if name == "a" else t - 1)
    assert doubled.a.tolist() == [2.0, 2.0] and doubled.b.tolist() == [-1.0, -1.0]


# Modes.


def test_a_mode_sees_every_operator_also_of_backward():
    x = fl.ones(2, 3, requires_grad=True)
    with LoggingMode() as mode:
        assert is_in_torch_dispatch_mode() and _get_current_dispatch_mode() is mode
        y = (x * 2).sum()
        y.backward()
        fl.ones(2)
    assert not is_in_torch_dispatch_mode()
    seen = mode.names()
    assert seen[:2] == ["aten::mul.Tensor", "aten::sum"] and any(name.startswith("aten::expand") for name in seen)
    assert "aten::ones" in seen or "aten::full" in seen
    count = len(seen)
    x * 2
    assert len(mode.names()) == count
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_modes_nest_and_are_called_from_inside_out():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    x = fl.ones(2)
    with Named("outer"), Named("inner"):
        x.neg()
        assert order == ["inner", "outer"]
        with _disable_current_modes() as modes:
            assert [mode.name for mode in modes] == ["inner", "outer"]
            x.neg()
        assert order == ["inner", "outer"]
        x.neg()
    assert order == ["inner", "outer"] * 2


def test_a_mode_and_a_wrapper_together():
    x = LoggingTensor(fl.ones(3), requires_grad=True)
    with LoggingMode() as mode:
        y = (x * 3).sum()
        y.backward()
    assert type(y) is LoggingTensor and x.grad.elem.tolist() == [3.0] * 3
    assert mode.calls[0] == (aten.mul.Tensor, (LoggingTensor,))
    # The mode around sees what the class calls on its parts too.
    assert mode.names().count("aten::mul.Tensor") >= 2 and "aten::mul.Tensor" in names(LOG)


def test_a_mode_may_answer_itself():
    class Ones(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return fl.ones(2) if func is aten.neg.default else func(*args, **(kwargs or {}))

    with Ones():
        assert fl.zeros(5).neg().tolist() == [1.0, 1.0]


def test_a_mode_is_left_by_an_exception():
    class Failing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"), Failing():
        fl.ones(2).neg()
    assert not is_in_torch_dispatch_mode() and fl.ones(2).neg().tolist() == [-1.0, -1.0]


def test_a_mode_belongs_to_its_thread():
    seen = []
    with LoggingMode() as mode:
        thread = threading.Thread(target=lambda: seen.append(fl.ones(3).neg().sum().item()))
        thread.start()
        thread.join()
    assert seen == [-3.0] and mode.calls == []


def test_views_through_a_mode_keep_their_base():
    x = fl.zeros(2, 3)
    with LoggingMode():
        row = x[0]
        row.add_(1)
    assert x.tolist() == [[1.0] * 3, [0.0] * 3] and row._base is x


def test_a_result_that_is_an_argument_keeps_its_own_history():
    class Identity(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return args[0] if func is aten.exp.default else func(*args, **(kwargs or {}))

    x = fl.ones(2, requires_grad=True)
    with Identity():
        y = x.exp()
    assert y is not x and x.is_leaf and y.grad_fn is not None


def test_training_under_a_mode_gives_the_same_bits(data):
    inputs, target = data
    plain = trained(network(), inputs, target)
    with LoggingMode():
        through = trained(network(), inputs, target)
    assert [loss.item() for loss in through] == [loss.item() for loss in plain]


def test_flop_counter():
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    x = fl.ones(5, 4)
    with FlopCounterMode(display=False) as counter:
        loss = model(x).sum()
    forward = 2 * 5 * (4 * 8 + 8 * 2)
    assert counter.get_total_flops() == forward
    assert counter.get_flop_counts()["Global"] == {aten.addmm: forward}
    assert counter.get_flop_counts()["Sequential.0"] == {aten.addmm: 2 * 5 * 4 * 8}
    with FlopCounterMode(display=False) as counter:
        loss.backward()
    assert counter.get_total_flops() == 2 * 5 * (4 * 8 + 8 * 2) + 2 * 5 * 8 * 2
    assert "100.00%" in counter.get_table()
    convolution = nn.Conv2d(3, 6, 3, padding=1)
    with FlopCounterMode(display=False) as counter:
        convolution(fl.ones(2, 3, 8, 8))
    assert counter.get_total_flops() == 2 * 2 * 6 * 3 * 9 * 64


def test_function_modes_see_calls_of_overloads():
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        aten.neg.default(fl.ones(2))
    assert aten.neg.default in seen


def test_saving_to_a_file():
    file = io.BytesIO()
    pickle.dump({"w": TwoTensor(fl.ones(2), fl.ones(2))}, file)
    file.seek(0)
    assert type(pickle.load(file)["w"]) is TwoTensor


PARTS = {
    "select": lambda x: x[1],
    "slice": lambda x: x[1:, ::2],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "diagonal": lambda x: x.diagonal(),
    "split": lambda x: x.split(2, 1)[0],
    "unbind": lambda x: x.unbind(0)[0],
    "index": lambda x: x[fl.tensor([1, 1, 0])],
    "expand": lambda x: x.unsqueeze(0).expand(4, 2, 3),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (2, 2), 1),
    "as_strided of the whole": lambda x: x.as_strided((2,), (1,)),
}


@pytest.mark.parametrize("name", PARTS)
def test_gradients_of_parts_are_wrappers(name):
    a, b = fl.arange(1.0, 7.0).reshape(2, 3), fl.arange(10.0, 70.0, 10.0).reshape(2, 3)
    x = TwoTensor(a.clone(), b.clone()).requires_grad_()
    (PARTS[name](x) ** 2).sum().backward()
    assert type(x.grad) is TwoTensor
    for found, part in ((x.grad.a, a), (x.grad.b, b)):
        leaf = part.clone().requires_grad_()
        (PARTS[name](leaf) ** 2).sum().backward()
        assert fl.equal(found, leaf.grad)


def test_pooling_with_its_own_stride_is_seen_by_modes():
    x = fl.randn(1, 1, 4, 4, requires_grad=True)
    for pool in (nn.functional.max_pool2d, nn.functional.avg_pool2d):
        with LoggingMode():
            pool(x, 2).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
