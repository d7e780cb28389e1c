"""Hooks on saved tensors: what they store is what a graph keeps, and the gradients stay what they were."""

import threading

import numpy as np
import pytest

import flambeau as fl
from flambeau.autograd.graph import save_on_cpu, saved_tensors_hooks


def leaf(*values):
    return fl.tensor(values, dtype=fl.float64, requires_grad=True)


def test_what_is_packed_is_what_is_used():
    stored = {}

    def pack(tensor):
        assert not tensor.requires_grad
        stored[len(stored)] = tensor.numpy().copy()
        return len(stored) - 1

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with saved_tensors_hooks(pack, lambda key: fl.from_numpy(stored[key])):
        z = (x * y).sum()
    assert sorted(a.tolist() for a in stored.values()) == [[1.0, 2.0], [3.0, 4.0]]
    # Gradients come from what is in the store now.
    for key, array in stored.items():
        stored[key] = array * 10
    z.backward()
    assert x.grad.tolist() == [30.0, 40.0] and y.grad.tolist() == [10.0, 20.0]


def test_pairs_nest_and_end():
    seen = []
    hooks = lambda name: saved_tensors_hooks(lambda t: seen.append(name) or t, lambda t: t)  # noqa: E731
    x = leaf(2.0)
    with hooks("outer"):
        x.exp()
        with hooks("inner"):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["outer", "inner", "outer"]
    with pytest.raises(ZeroDivisionError), hooks("gone"):
        1 / 0
    x.exp()
    assert seen == ["outer", "inner", "outer"]


def test_hooks_belong_to_the_thread():
    seen, x = [], leaf(2.0)
    with saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        thread = threading.Thread(target=x.exp)
        thread.start()
        thread.join()
    assert not seen


def test_second_derivatives():
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), fl.from_numpy):
        y = (x**3).sum()
        (first,) = fl.autograd.grad(y, x, create_graph=True)
    (second,) = fl.autograd.grad(first.sum(), x)
    assert first.tolist() == [3.0, 12.0] and second.tolist() == [6.0, 12.0]


def test_functions_of_the_users_are_packed_too():
    seen = []

    class Square(fl.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            return value * value

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = leaf(3.0)
    with saved_tensors_hooks(lambda t: seen.append(t.item()) or t, lambda t: t + 1):
        y = Square.apply(x)
    y.backward()
    assert seen == [3.0] and x.grad.tolist() == [8.0]


def test_what_hooks_do_wrong_is_an_error():
    x = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda t: None, lambda t: t):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="in place"), saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        x.exp()
    with pytest.raises(KeyError, match="mine"), saved_tensors_hooks(lambda t: {}["mine"], lambda t: t):
        x.exp()


def test_save_on_cpu():
    x = fl.randn(5, dtype=fl.float64, requires_grad=True)
    with save_on_cpu():
        y = x.sin().sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()), rtol=1e-12)
