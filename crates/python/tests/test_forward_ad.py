"""Forward mode: levels, tangents through operators, in place and views, custom functions; against derivatives worked out by hand."""

import math

import numpy as np
import pytest

import flambeau as fl
import flambeau.autograd.forward_ad as fwAD
from flambeau.autograd import Function, gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError


def f64(*values):
    return fl.tensor(values, dtype=fl.float64)


def tangent(tensor):
    found = fwAD.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def test_a_level():
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(f64(1), f64(1))
    assert fwAD.unpack_dual(f64(1)).tangent is None
    with pytest.raises(RuntimeError):
        fwAD.exit_dual_level()
    with fwAD.dual_level() as level:
        assert level == 0
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fwAD.enter_dual_level()
        x = fwAD.make_dual(f64(1, 2), f64(3, 4))
        primal, slope = fwAD.unpack_dual(x.square())
        assert primal.tolist() == [1, 4] and slope.tolist() == [6, 16]
    assert tangent(x) is None
    assert fwAD.enter_dual_level() == 0
    assert tangent(x) is None
    fwAD.exit_dual_level()


def test_what_a_tangent_is_of():
    x, direction = f64(1, 2), f64(3, 4)
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="different size"):
            fwAD.make_dual(x, f64(1))
        with pytest.raises(ValueError, match="primal to be floating point"):
            fwAD.make_dual(x.long(), x)
        with pytest.raises(ValueError, match="tangent to be floating point"):
            fwAD.make_dual(x, x.long())
        dual = fwAD.make_dual(x, direction)
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fwAD.make_dual(dual, direction)
        assert fwAD.unpack_dual(dual).tangent is direction
        assert dual._base is x and tangent(x) is None
        assert tangent(dual.detach()) is None and tangent(dual > 0) is None
        assert tangent(dual.floor()) == [0, 0]
        assert tangent(fwAD.unpack_dual(dual).primal * 2) is None
        assert "tangent=tensor([3., 4.]" in repr(dual)
        with fl.no_grad():
            assert tangent(dual * 2) == [6, 8]


def test_writing_in_place():
    with fwAD.dual_level():
        direction = f64(3, 4)
        x = fwAD.make_dual(f64(1, 2), direction)
        x.mul_(2)
        assert direction.tolist() == [6, 8]
        y = fl.zeros(4, dtype=fl.float64)
        first = y[:2]
        first.copy_(x)
        assert tangent(y) == [6, 8, 0, 0] and tangent(first) == [6, 8]
        y.zero_()
        assert tangent(first) == [0, 0]
        y[1:3] = x
        assert tangent(y) == [0, 6, 8, 0]
        with pytest.raises(NotImplementedError, match="out= function"):
            fl.exp(x, out=f64(0, 0))


def test_a_network_against_formulas():
    weight, x = f64([0.5, -1.0], [2.0, 0.25]), f64([1.0, 2.0])
    direction = f64([0.1, 0.2], [-0.3, 0.4])
    with fwAD.dual_level():
        hidden = fl.tanh(x @ fwAD.make_dual(weight, direction))
        slope = np.array(tangent(hidden))
    product = x.numpy() @ weight.numpy()
    expected = (1 - np.tanh(product) ** 2) * (x.numpy() @ direction.numpy())
    np.testing.assert_allclose(slope, expected, rtol=1e-14)


def test_backward_through_tangents_and_tangents_through_backward():
    x = f64(0.5).requires_grad_()
    with fwAD.dual_level():
        y = fwAD.make_dual(x, f64(2)).sin()
        slope = fwAD.unpack_dual(y).tangent
        (second,) = fl.autograd.grad(slope, x)
        assert second.item() == pytest.approx(-2 * math.sin(0.5), rel=1e-14)
        z = fwAD.make_dual(x, f64(2)).sin()
        (gradient,) = fl.autograd.grad(z, x)
        assert tangent(gradient)[0] == pytest.approx(-2 * math.sin(0.5), rel=1e-14)
        (fwAD.make_dual(x, f64(1)) ** 3).backward()
    assert x.grad.item() == pytest.approx(0.75)


class Cube(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.k = k
        return x**3 * k, x + 1

    @staticmethod
    def backward(ctx, grad, other):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2 * ctx.k + other, None

    @staticmethod
    def jvp(ctx, x_t, k_t):
        assert k_t is None
        (x,) = ctx.saved_tensors
        return x_t * 3 * x**2 * ctx.k, x_t


class Pair(Function):
    """A product, with tangents of inputs that have none as zeros."""

    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a

    @staticmethod
    def jvp(ctx, a_t, b_t):
        a, b = ctx.saved_tensors
        return a_t * b + a * b_t


class Silent(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_functions_with_a_jvp():
    x = f64(2, 3)
    with fwAD.dual_level():
        cube, shifted = Cube.apply(fwAD.make_dual(x, f64(1, 10)), 2)
        assert tangent(cube) == [24, 540] and tangent(shifted) == [1, 10]
        assert tangent(Pair.apply(fwAD.make_dual(x, f64(1, 10)), x)) == [2, 30]
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            Silent.apply(fwAD.make_dual(x, x))
        assert tangent(Silent.apply(x)) is None
    y = f64(0.3, -1.2).requires_grad_()
    assert gradcheck(lambda x: Cube.apply(x, 2), y, check_forward_ad=True)
    assert gradcheck(Pair.apply, (y, f64(1.5, 2.5).requires_grad_()), check_forward_ad=True)
    with pytest.raises(NotImplementedError, match="must implement the jvp function"):
        gradcheck(Silent.apply, y, check_forward_ad=True)


class Wrong(Cube):
    @staticmethod
    def jvp(ctx, x_t, k_t):
        return x_t, x_t


def test_gradcheck_of_tangents():
    x = f64(0.3, -1.2).requires_grad_()
    assert gradcheck(fl.tanh, x, check_forward_ad=True)
    assert gradcheck(fl.tanh, x, check_forward_ad=True, check_backward_ad=False)
    assert gradgradcheck(fl.tanh, x, check_fwd_over_rev=True)
    with pytest.raises(GradcheckError, match="computed with forward mode"):
        gradcheck(lambda x: Wrong.apply(x, 2), x, check_forward_ad=True)
    assert gradcheck(lambda x: Wrong.apply(x, 2), x)


def test_layers_have_tangents():
    """Convolution, normalisation, attention and losses: each along one direction against differences."""
    fl.manual_seed(0)
    nn = fl.nn
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    ).double()
    model.eval()
    x, v = fl.randn(2, 2, 4, 4, dtype=fl.float64), fl.randn(2, 2, 4, 4, dtype=fl.float64)
    target = fl.tensor([1, 3])

    def loss(x):
        return nn.functional.cross_entropy(model(x), target)

    value, slope = fl.func.jvp(loss, (x,), (v,))
    step = 1e-6
    difference = (loss(x + step * v) - loss(x - step * v)).item() / (2 * step)
    assert slope.item() == pytest.approx(difference, rel=1e-6)
    assert value.item() == pytest.approx(loss(x).item(), rel=1e-12)
