"""Activation checkpointing: the same gradients to the bit, less memory, nested, random, twice, and what goes wrong."""

import gc
import weakref

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop


def network(*more):
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh(), *more, nn.Linear(6, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 2))


def gradients(run, model, x):
    for p in [x, *model.parameters()]:
        p.grad = None
    run(x).square().sum().backward()
    return [p.grad.tolist() for p in [x, *model.parameters()]]


@pytest.fixture
def x():
    fl.manual_seed(0)
    return fl.randn(5, 6, requires_grad=True)


def test_gradients_are_the_same_to_the_bit(x):
    model = network()
    expected = gradients(model, model, x)
    assert gradients(lambda x: checkpoint(model, x, use_reentrant=False), model, x) == expected
    assert gradients(lambda x: checkpoint(lambda *, named: model(named), named=x), model, x) == expected
    assert gradients(checkpoint(use_reentrant=False)(model), model, x) == expected
    for segments in (1, 2, 3, 6):
        assert gradients(lambda x: checkpoint_sequential(model, segments, x, use_reentrant=False), model, x) == expected


def test_parts_inside_parts(x):
    a, b = network(), nn.Sequential(nn.Linear(2, 6), nn.Sigmoid(), nn.Linear(6, 2))
    both = nn.Sequential(a, b)
    runs = []

    def inner(value):
        runs.append("inner")
        return b(value)

    def outer(value):
        runs.append("outer")
        return checkpoint(inner, a(value), use_reentrant=False).exp()

    expected = gradients(lambda x: both(x).exp(), both, x)
    assert gradients(lambda x: checkpoint(outer, x, use_reentrant=False), both, x) == expected
    assert runs.count("outer") == 2 and runs.count("inner") == 3
    thrice = lambda x: checkpoint(lambda x: checkpoint(outer, x.clone(), use_reentrant=False), x, use_reentrant=False)  # noqa: E731
    assert gradients(thrice, both, x) == expected


def test_dropout_draws_the_same_again(x):
    model = network(nn.Dropout(0.4))
    run = lambda x: checkpoint(model, x, use_reentrant=False)  # noqa: E731
    found = []
    for call in (model, run):
        fl.manual_seed(3)
        found.append((gradients(call, model, x), fl.rand(2).tolist()))
    assert found[0] == found[1]
    fl.manual_seed(3)
    other = gradients(lambda x: checkpoint(model, x, preserve_rng_state=False), model, x)
    assert other != found[0][0]


def test_nothing_is_kept_but_inputs(x):
    saved = []
    pack = lambda t: saved.append(t.numel() * t.element_size()) or t  # noqa: E731
    with saved_tensors_hooks(pack, lambda t: t):
        network()(x)
        plain, saved[:] = sum(saved), []
        y = checkpoint(network(), x, use_reentrant=False)
    assert plain > 0 and saved == [] and y.requires_grad


def test_graphs_are_freed(x):
    class Part:
        def __init__(self):
            self.model = network()

        def __call__(self, x):
            return self.model(x)

    part = Part()
    gone = weakref.ref(part)
    y = checkpoint(part, x, use_reentrant=False).sum()
    del part
    assert gone() is not None
    y.backward()
    del y
    gc.collect()
    assert gone() is None


def test_second_derivatives(x):
    model = network()

    def second(run):
        (first,) = fl.autograd.grad(run(x).square().sum(), x, create_graph=True)
        return [g.tolist() for g in fl.autograd.grad(first.square().sum(), [x, *model.parameters()], allow_unused=True) if g is not None]

    assert second(lambda x: checkpoint(model, x, use_reentrant=False)) == second(model)


def test_a_second_pass_needs_the_graph(x):
    runs = []

    def part(x):
        runs.append(x)
        return x.tanh().exp()

    y = checkpoint(part, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert len(runs) == 3 and (x.grad == 2 * first).all()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_pass_inside_the_function(x):
    def part(x):
        (inner,) = fl.autograd.grad(x.tanh().sum(), x, create_graph=True)
        return inner * x

    (expected,) = fl.autograd.grad(part(x).sum(), x)
    (found,) = fl.autograd.grad(checkpoint(part, x, use_reentrant=False).sum(), x)
    assert found.tolist() == expected.tolist()


def test_it_stops_when_it_has_all_unless_told(x):
    ends = []

    def part(x):
        y = x.tanh()
        ends.append(1)
        return y

    checkpoint(part, x, use_reentrant=False).sum().backward()
    assert len(ends) == 1
    with set_checkpoint_early_stop(False):
        y = checkpoint(part, x, use_reentrant=False)
    y.sum().backward()
    assert len(ends) == 3


def test_what_is_not_the_same_again_is_an_error(x):
    runs = []

    def shapes(x):
        runs.append(1)
        return (x[: len(runs)]).exp().sum()

    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(shapes, x, use_reentrant=False).backward()
    runs.clear()

    def fewer(x):
        runs.append(1)
        return x.sin().exp().sum() if len(runs) == 1 else x.sin().sum()

    with pytest.raises(CheckpointError, match="different number of tensors.*\n.*forward: 2\n.*recomputation: 1"):
        checkpoint(fewer, x, use_reentrant=False).backward()
    z = x * 2
    y = checkpoint(lambda z: z.sin(), z, use_reentrant=False).sum()
    z.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_exceptions_come_through(x):
    def failing(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        checkpoint(failing, x, use_reentrant=False)
    runs = []

    def later(x):
        runs.append(1)
        return x.exp() if len(runs) == 1 else failing(x)

    with pytest.raises(KeyError, match="mine"):
        checkpoint(later, x, use_reentrant=False).sum().backward()
    # Nothing is left behind: what is saved now is kept as ever.
    (found,) = fl.autograd.grad(x.exp().sum(), x)
    assert found.tolist() == x.exp().tolist()


def test_options_that_are_not_implemented(x):
    with pytest.raises(NotImplementedError, match="not reentrant"):
        checkpoint(fl.exp, x, use_reentrant=True)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(fl.exp, x, use_reentrant=False, determinism_check="much")
    with fl.no_grad():
        assert not checkpoint(fl.exp, x, use_reentrant=False).requires_grad
