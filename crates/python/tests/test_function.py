"""Functions written in Python, checks of gradients, anomaly mode; against derivatives worked out by hand."""

import gc
import weakref

import numpy as np
import pytest

import flambeau as fl
from flambeau.autograd import Function, detect_anomaly, gradcheck, gradgradcheck, set_detect_anomaly
from flambeau.autograd.function import once_differentiable
from flambeau.autograd.gradcheck import GradcheckError


def leaf(*values):
    return fl.tensor(values, dtype=fl.float64, requires_grad=True)


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        assert not fl.is_grad_enabled()
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Scaled(Function):
    """`a * x * k` with a number between tensors, by setup_context."""

    @staticmethod
    def forward(a, k, x):
        return a * x * k

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, ctx.k, x = inputs
        ctx.save_for_backward(a, x)

    @staticmethod
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return grad * x * ctx.k if needs[0] else None, None, grad * a * ctx.k if needs[2] else None


def test_forward_and_backward():
    x = leaf(0.0, 1.0)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward" and not y.is_leaf
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.0, 1.0]), rtol=1e-15)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    z = Exp.apply(x)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    with fl.no_grad():
        assert not Exp.apply(x).requires_grad
    assert not Exp.apply(x.detach()).requires_grad


def test_gradients_of_gradients():
    x = leaf(0.3, -0.7)
    assert gradcheck(Exp.apply, (x,)) and gradgradcheck(Exp.apply, x)
    (first,) = fl.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (second,) = fl.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), np.exp([0.3, -0.7]), rtol=1e-15)


def test_setup_context_and_arguments_that_are_no_tensors():
    a, x = leaf(2.0), leaf(3.0)
    y = Scaled.apply(a, 5, x)
    assert y.item() == 30
    y.backward()
    assert (a.grad.item(), x.grad.item()) == (15, 10)
    assert Scaled.apply(a, k=2, x=x).item() == 12
    b = leaf(1.0)
    Scaled.apply(a.detach(), 2, b).backward()
    assert b.grad.item() == 4
    assert gradcheck(Scaled.apply, (a, 3, x)) and gradgradcheck(Scaled.apply, (a, 3, x))


def test_several_outputs_and_materialized_gradients():
    seen = []

    class Split(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3, "text"

        @staticmethod
        def backward(ctx, a, b, text):
            seen.append((a if a is None else a.tolist(), b if b is None else b.tolist(), text))
            return sum(g * k for g, k in ((a, 2), (b, 3)) if g is not None), None

    x = leaf(1.0)
    for materialize in (True, False):
        a, b, text = Split.apply(x, materialize)
        assert text == "text"
        b.backward()
    assert seen == [([0.0], [1.0], None), (None, [1.0], None)] and x.grad.item() == 6


def test_mark_dirty():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y and y.grad_fn.name() == "DoubleBackward"
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="leaf"):
        Double.apply(leaf(1.0))

    class Forgets(Double):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="not returned as output"):
        Forgets.apply(leaf(1.0) * 1)


def test_outputs_that_are_inputs_and_without_gradient():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            order = x.argsort()
            largest = x.max()
            ctx.mark_non_differentiable(order, largest)
            return x, order, largest

        @staticmethod
        def backward(ctx, grad, order, largest):
            return grad * 7

    x = leaf(3.0, 1.0)
    y, order, largest = Same.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and order.tolist() == [1, 0]
    assert not order.requires_grad and not largest.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [7, 7] and x.is_leaf


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            x, nothing = ctx.saved_tensors
            assert nothing is None and not fl.is_grad_enabled()
            return fl.from_numpy(2 * x.numpy() * grad.numpy())

    x = leaf(3.0)
    (first,) = fl.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    assert first.item() == 6
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.backward()


def test_saved_tensors_that_were_written():
    class Keep(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = leaf(1.0) * 1
    y = Keep.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(TypeError, match="can only save"):
        type("Bad", (Keep,), {"forward": staticmethod(lambda ctx, x: ctx.save_for_backward(3) or x * 1)}).apply(leaf(1.0))


def wrong(result):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, grad):
            return result(grad)

    return lambda: Wrong.apply(leaf(1.0, 2.0), 3).sum().backward()


def test_wrong_gradients_are_errors():
    for result, error, message in (
        (lambda g: g, RuntimeError, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (g, g), RuntimeError, "different from None at position 2"),
        (lambda g: (1, None), RuntimeError, "expected a Tensor or None"),
        (lambda g: (g[:1].expand(3), None), RuntimeError, "shape|size"),
        (lambda g: 1 / 0, ZeroDivisionError, "division"),
    ):
        with pytest.raises(error, match=message):
            wrong(result)()
    wrong(lambda g: (g, None, None, None))()
    wrong(lambda g: (None, None))()
    with pytest.raises(RuntimeError, match="static"):
        Exp()
    with pytest.raises(NotImplementedError):
        Function.apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="both"):
        type("Both", (Exp,), {"vjp": staticmethod(lambda ctx, g: g)})


def test_exceptions_in_forward_leave_things_as_they_were():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Fails.apply(leaf(1.0))
    assert fl.is_grad_enabled()


def test_functions_inside_functions_and_deep_graphs():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            with fl.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = Exp.apply(ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            ctx.y.backward(grad)
            return ctx.x.grad

    x = leaf(0.5)
    Inner.apply(x).backward()
    assert x.grad.item() == pytest.approx(np.exp(0.5), rel=1e-15)
    y = x
    for _ in range(5000):
        y = Exp.apply(y) * 0
    y.sum().backward()
    del y


def test_contexts_go_with_their_graphs():
    class Probe:
        pass

    class Holds(Function):
        @staticmethod
        def forward(ctx, x, probe):
            ctx.probe = probe
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    probe = Probe()
    gone = weakref.ref(probe)
    y = Holds.apply(leaf(1.0), probe)
    del probe
    gc.collect()
    assert gone() is not None
    y.backward()
    del y
    gc.collect()
    assert gone() is None


def test_gradcheck_finds_what_is_wrong():
    class Half(Exp):
        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0] * 0.5

    x = leaf(0.3)
    with pytest.raises(GradcheckError, match="Jacobian mismatch|numerical"):
        gradcheck(Half.apply, x)
    assert gradcheck(Half.apply, x, raise_exception=False) is False
    assert gradcheck(lambda x, y: (x @ y, x.sum()), (fl.randn(2, 3, dtype=fl.float64, requires_grad=True), fl.randn(3, 2, dtype=fl.float64, requires_grad=True)))
    with pytest.raises(ValueError, match="require gradient"):
        gradcheck(Exp.apply, x.detach())
    with pytest.raises(ValueError, match="float64"):
        gradcheck(Exp.apply, fl.ones(1, requires_grad=True))
    with pytest.raises(ZeroDivisionError):
        gradcheck(lambda x: x / (1 // 0), x)
    assert gradgradcheck(lambda x: x**3, x, fl.tensor([2.0], dtype=fl.float64, requires_grad=True))

    class FirstOnly(Exp):
        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0].detach()

    assert gradcheck(FirstOnly.apply, x)
    with pytest.raises(GradcheckError):
        gradgradcheck(FirstOnly.apply, x)


def test_anomaly_mode_names_the_call():
    x = leaf(-1.0)
    with detect_anomaly():
        y = x.sqrt()  # the line to be named
        with pytest.raises(RuntimeError, match="nan values in its 0th output") as raised:
            y.backward()
    assert "y = x.sqrt()  # the line to be named" in str(raised.value)
    assert not fl.autograd.anomaly_mode.is_anomaly_enabled()
    with detect_anomaly(check_nan=False):
        x.sqrt().backward()
    set_detect_anomaly(True)
    try:
        assert fl.autograd.anomaly_mode.is_anomaly_enabled()
    finally:
        set_detect_anomaly(False)
    with set_detect_anomaly(True, check_nan=False):
        assert not fl.autograd.anomaly_mode.is_anomaly_check_nan_enabled()
    assert not fl.autograd.anomaly_mode.is_anomaly_enabled()
