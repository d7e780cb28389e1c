"""Gradients in Python: backward, grad, hooks, modes; against derivatives worked out by hand and NumPy."""

import gc
import threading

import numpy as np
import pytest

import flambeau as fl


def leaf(*values):
    return fl.tensor(values, dtype=fl.float64, requires_grad=True)


def test_backward_accumulates():
    x = leaf(1.0, 2.0, 3.0)
    (x**2).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    (3 * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0, 9.0]
    x.grad = None
    assert x.grad is None
    x.grad = fl.zeros(3, dtype=fl.float64)
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError):
        x.grad = fl.zeros(2, dtype=fl.float64)
    with pytest.raises(TypeError):
        x.grad = 3


def test_backward_of_a_linear_layer_as_numpy_computes_it():
    rng = np.random.default_rng(0)
    w, v, b = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=4)
    weight = fl.tensor(w.tolist(), dtype=fl.float64, requires_grad=True)
    bias = fl.tensor(b.tolist(), dtype=fl.float64, requires_grad=True)
    out = fl._nn.linear(fl.tensor(v.tolist(), dtype=fl.float64), weight, bias)
    (out * out).sum().backward()
    grad_out = 2 * (v @ w.T + b)
    np.testing.assert_allclose(weight.grad.tolist(), grad_out.T @ v, rtol=1e-12)
    np.testing.assert_allclose(bias.grad.tolist(), grad_out.sum(0), rtol=1e-12)


def test_arguments_of_backward():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    z = x * y
    z.backward(fl.tensor([1.0, 10.0], dtype=fl.float64), retain_graph=True, inputs=[x])
    assert x.grad.tolist() == [3.0, 40.0] and y.grad is None
    fl.autograd.backward([z.sum()], inputs=y)
    assert y.grad.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="second time|freed"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="scalar"):
        (x * 2).backward()
    with pytest.raises(RuntimeError):
        fl.ones(1).backward()


def test_grad_of_grad():
    x = leaf(2.0)
    (first,) = fl.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = fl.autograd.grad(first.sum(), [x])
    assert (first.item(), second.item()) == (12.0, 12.0)
    y = leaf(1.0)
    with pytest.raises(RuntimeError, match="not have been used"):
        fl.autograd.grad((x * 1).sum(), [x, y])
    assert fl.autograd.grad((x * 1).sum(), [x, y], allow_unused=True)[1] is None
    assert fl.autograd.grad((x * 1).sum(), [x, y], materialize_grads=True)[1].tolist() == [0.0]


def test_graph():
    x = leaf(1.0)
    y = (x * x).sum()
    assert y.grad_fn.name() == "SumBackward0" and not y.is_leaf and x.is_leaf and x.grad_fn is None
    (mul, number), = y.grad_fn.next_functions
    assert (mul.name(), number) == ("MulBackward0", 0)
    assert mul.next_functions[0][0].name() == "AccumulateGrad"
    assert y.grad_fn == y.grad_fn and mul != y.grad_fn


def test_hooks():
    x = leaf(1.0, 2.0)
    seen = []
    handle = x.register_hook(lambda grad: seen.append(grad.tolist()))
    scaled = x.register_hook(lambda grad: grad * 10)
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0]] and x.grad.tolist() == [30.0, 30.0]
    handle.remove()
    scaled.remove()
    after = []
    x.register_post_accumulate_grad_hook(lambda p: after.append(p is x))
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert len(seen) == 1 and after == [True] and y.grad.tolist() == [1.0, 1.0] and y.retains_grad


def test_hooks_of_nodes():
    x = leaf(1.0, 2.0)
    y = x * 2
    order = []
    y.grad_fn.register_prehook(lambda grads: order.append(("before", grads[0].tolist())))
    y.grad_fn.register_hook(lambda ins, outs: order.append(("after", ins[0].tolist(), outs[0].tolist())))
    y.sum().backward()
    assert order == [("before", [1.0, 1.0]), ("after", [2.0, 2.0], [1.0, 1.0])]


def test_exceptions_in_hooks_arrive_as_they_are():
    class Mine(Exception):
        pass

    def fail(grad):
        raise Mine("from the hook")

    x = leaf(1.0)
    x.register_hook(fail)
    with pytest.raises(Mine, match="from the hook"):
        x.sum().backward()
    y = leaf(1.0)
    y.register_hook(lambda grad: "text")
    with pytest.raises(TypeError, match="hook"):
        y.sum().backward()


def test_modes():
    x = leaf(1.0)
    with fl.no_grad():
        assert not fl.is_grad_enabled() and not (x * 2).requires_grad
        with fl.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad
    with fl.inference_mode():
        assert fl.is_inference_mode_enabled() and (x * 2).is_inference()
    with fl.set_grad_enabled(False):
        assert not fl.is_grad_enabled()
    assert fl.is_grad_enabled()
    fl.set_grad_enabled(False)
    assert not fl.is_grad_enabled()
    fl.set_grad_enabled(True)
    assert fl.is_grad_enabled()


def test_modes_end_with_exceptions_and_belong_to_threads():
    with pytest.raises(KeyError):
        with fl.no_grad():
            raise KeyError
    assert fl.is_grad_enabled()
    inside = []
    with fl.no_grad():
        thread = threading.Thread(target=lambda: inside.append(fl.is_grad_enabled()))
        thread.start()
        thread.join()
    assert inside == [True]


def test_modes_as_decorators():
    x = leaf(1.0)

    @fl.no_grad()
    def called():
        """Its documentation."""
        return (x * 2).requires_grad

    @fl.no_grad
    def bare():
        return (x * 2).requires_grad

    @fl.inference_mode()
    def inferred():
        return (x * 2).is_inference()

    @fl.no_grad()
    def steps():
        received = yield fl.is_grad_enabled()
        yield received, fl.is_grad_enabled()

    assert called() is False and called.__doc__ == "Its documentation." and bare() is False and inferred() is True
    generator = steps()
    assert next(generator) is False and fl.is_grad_enabled()
    assert generator.send("sent") == ("sent", False) and fl.is_grad_enabled()


def test_leaves_and_detaching():
    x = leaf(1.0, 2.0)
    assert not x.detach().requires_grad and x.detach().data_ptr() == x.data_ptr()
    assert not x.data.requires_grad
    y = x * 2
    assert y.detach_() is y and not y.requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).requires_grad_(False)
    with pytest.raises(RuntimeError, match="floating point"):
        fl.arange(3).requires_grad_()
    with pytest.raises(RuntimeError, match="in-place|leaf"):
        x.add_(1)
    x.requires_grad = False
    assert not x.requires_grad


def test_dropped_graphs_leave_nothing():
    class Probe:
        pass

    import weakref

    probe = Probe()
    gone = weakref.ref(probe)
    x = leaf(1.0)
    x.register_hook(lambda grad, probe=probe: None)
    del x, probe
    gc.collect()
    fl.ones(1) + 1
    assert gone() is None
