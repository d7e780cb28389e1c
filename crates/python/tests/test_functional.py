"""Jacobians, Hessians and their products, by both modes and one in another, against derivatives worked out by hand."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import func
from flambeau.autograd import functional


def f64(*values):
    return fl.tensor(values, dtype=fl.float64)


A = np.array([[1.0, 2.0, 0.5], [0.25, -1.0, 3.0]])


def linear_sine(x):
    """sin(A x), of which the Jacobian is diag(cos(A x)) A."""
    return (f64(*A.tolist()) @ x).sin()


X = np.array([0.3, -0.2, 0.7])
JACOBIAN = np.cos(A @ X)[:, None] * A


def cubic(x, y):
    """sum(x^3 y): gradient (3 x^2 y, x^3), Hessian blocks diag(6 x y), diag(3 x^2), 0."""
    return (x**3 * y).sum()


def test_products_with_the_jacobian():
    x, v, u = f64(*X), f64(1.0, 2.0, -1.0), f64(0.5, -2.0)
    outputs, slope = functional.jvp(linear_sine, x, v)
    np.testing.assert_allclose(outputs.numpy(), np.sin(A @ X), rtol=1e-15)
    np.testing.assert_allclose(slope.numpy(), JACOBIAN @ v.numpy(), rtol=1e-14)
    outputs, gradient = functional.vjp(linear_sine, x, u)
    np.testing.assert_allclose(gradient.numpy(), u.numpy() @ JACOBIAN, rtol=1e-14)
    assert not outputs.requires_grad and not gradient.requires_grad
    with pytest.raises(RuntimeError, match="can only be None"):
        functional.jvp(linear_sine, x)
    with pytest.raises(RuntimeError, match="sizes"):
        functional.vjp(linear_sine, x, f64(1.0))
    with pytest.raises(TypeError):
        functional.jvp(linear_sine, 1.0, v)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian(strategy, vectorize):
    found = functional.jacobian(linear_sine, f64(*X), strategy=strategy, vectorize=vectorize)
    np.testing.assert_allclose(found.numpy(), JACOBIAN, rtol=1e-14)

    def two(x, y):
        return x.outer(y), y.sum()

    x, y = f64(1.0, 2.0), f64(3.0, 4.0, 5.0)
    (by_x, by_y), (none, ones) = functional.jacobian(two, (x, y), strategy=strategy, vectorize=vectorize)
    assert by_x.shape == (2, 3, 2) and by_y.shape == (2, 3, 3)
    np.testing.assert_array_equal(by_x.numpy(), np.einsum("ik,j->ijk", np.eye(2), y.numpy()))
    np.testing.assert_array_equal(by_y.numpy(), np.einsum("i,jk->ijk", x.numpy(), np.eye(3)))
    assert none.tolist() == [0, 0] and ones.tolist() == [1, 1, 1]


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian_can_be_differentiated(vectorize):
    x = f64(0.5, 2.0).requires_grad_()
    for strategy in ("reverse-mode", "forward-mode"):
        found = functional.jacobian(lambda x: x**3, x, create_graph=True, strategy=strategy, vectorize=vectorize)
        (gradient,) = fl.autograd.grad(found.sum(), x)
        np.testing.assert_allclose(gradient.numpy(), [3.0, 12.0], rtol=1e-14)
    with pytest.raises(RuntimeError, match="strict"):
        functional.jacobian(lambda x: fl.ones(2, dtype=fl.float64), x, strict=True)
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.jacobian(lambda x: x, x, strict=True, vectorize=True)


@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_hessian(strategy, vectorize):
    x, y = f64(1.0, 2.0), f64(3.0, -1.0)
    (xx, xy), (yx, yy) = functional.hessian(cubic, (x, y), vectorize=vectorize, outer_jacobian_strategy=strategy)
    np.testing.assert_allclose(xx.numpy(), np.diag([18.0, -12.0]))
    np.testing.assert_allclose(xy.numpy(), np.diag([3.0, 12.0]))
    np.testing.assert_allclose(yx.numpy(), np.diag([3.0, 12.0]))
    np.testing.assert_allclose(yy.numpy(), np.zeros((2, 2)))
    single = functional.hessian(lambda x: (x**4).sum(), x, vectorize=vectorize, outer_jacobian_strategy=strategy)
    np.testing.assert_allclose(single.numpy(), np.diag([12.0, 48.0]))
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(lambda x: x, x)


def test_products_with_the_hessian():
    x, y = f64(1.0, 2.0), f64(3.0, -1.0)
    v, w = f64(1.0, 0.5), f64(-2.0, 1.0)
    expected = ([18.0 - 6.0, -6.0 + 12.0], [3.0, 6.0])
    for product in (functional.hvp, functional.vhp):
        value, (by_x, by_y) = product(cubic, (x, y), (v, w))
        assert value.item() == -5
        np.testing.assert_allclose(by_x.numpy(), expected[0])
        np.testing.assert_allclose(by_y.numpy(), expected[1])


def test_func_grad():
    x, y = f64(1.0, 2.0), f64(3.0, -1.0)
    np.testing.assert_allclose(func.grad(cubic)(x, y).numpy(), [9.0, -12.0])
    by_x, by_y = func.grad(cubic, argnums=(0, 1))(x, y)
    np.testing.assert_allclose(by_y.numpy(), [1.0, 8.0])
    assert not by_x.requires_grad
    gradient, (value, aux) = func.grad_and_value(lambda x: (x.sum(), "beside"), has_aux=True)(x)
    assert gradient.tolist() == [1, 1] and value.item() == 3 and aux == "beside"
    third = func.grad(func.grad(func.grad(lambda x: x**5)))
    assert third(fl.tensor(2.0, dtype=fl.float64)).item() == pytest.approx(60 * 4)
    with pytest.raises(RuntimeError, match="scalar"):
        func.grad(lambda x: x)(x)
    with pytest.raises(RuntimeError, match="positional"):
        func.grad(cubic, argnums=2)(x, y)


def test_func_products():
    x, v, u = f64(*X), f64(1.0, 2.0, -1.0), f64(0.5, -2.0)
    _, slope = func.jvp(linear_sine, (x,), (v,))
    np.testing.assert_allclose(slope.numpy(), JACOBIAN @ v.numpy(), rtol=1e-14)
    outputs, pull_back = func.vjp(linear_sine, x)
    assert not outputs.requires_grad
    for _ in range(2):
        np.testing.assert_allclose(pull_back(u)[0].numpy(), u.numpy() @ JACOBIAN, rtol=1e-14)
    outputs, slopes, aux = func.jvp(lambda x: ((x, x.sum()), 7), (x,), (v,), has_aux=True)
    assert slopes[1].item() == 2 and aux == 7 and len(outputs) == 2


def test_func_jacobians():
    x = f64(*X)
    for jacobian in (func.jacrev, func.jacfwd):
        np.testing.assert_allclose(jacobian(linear_sine)(x).numpy(), JACOBIAN, rtol=1e-14)
        found, aux = jacobian(lambda x: (x * 2, 1), has_aux=True)(x)
        np.testing.assert_allclose(found.numpy(), 2 * np.eye(3))
        assert aux == 1
        assert jacobian(lambda x: x * 2)(fl.ones(0)).shape == (0, 0)
    square = lambda x: (x**4).sum()  # noqa: E731
    for outer in (func.jacrev, func.jacfwd):
        found = outer(func.jacrev(square))(f64(1.0, 2.0))
        np.testing.assert_allclose(found.numpy(), np.diag([12.0, 48.0]))
    np.testing.assert_allclose(func.jacrev(func.jacfwd(square))(f64(1.0, 2.0)).numpy(), np.diag([12.0, 48.0]))
    np.testing.assert_allclose(func.hessian(square)(f64(1.0, 2.0)).numpy(), np.diag([12.0, 48.0]))
    with pytest.raises(RuntimeError, match="Nested forward mode"):
        func.jacfwd(func.jacfwd(square))(f64(1.0))


def test_gradients_of_gradients_with_tangents():
    """Forward mode through two backward passes: the third derivative of x^5 along 1."""
    second = func.grad(func.grad(lambda x: x**5))
    x, one = fl.tensor(2.0, dtype=fl.float64), fl.tensor(1.0, dtype=fl.float64)
    value, slope = func.jvp(second, (x,), (one,))
    assert value.item() == pytest.approx(20 * 8) and slope.item() == pytest.approx(60 * 4)


def test_nested_arguments_and_outputs():
    params = {"a": f64(1.0, 2.0), "rest": [f64(3.0), (f64(0.5),)]}

    def loss(params, scale):
        a, (b, (c,)) = params["a"], params["rest"]
        return ((a * b).sum() + c.square().sum()) * scale

    found = func.grad(loss)(params, 2.0)
    assert found["a"].tolist() == [6, 6] and found["rest"][0].tolist() == [6] and found["rest"][1][0].tolist() == [2]
    value, pull_back = func.vjp(lambda p: {"double": p["a"] * 2, "b": p["rest"][0]}, params)
    assert set(value) == {"double", "b"}
    (gradient,) = pull_back({"double": f64(1.0, 10.0), "b": f64(5.0)})
    assert gradient["a"].tolist() == [2, 20] and gradient["rest"][0].tolist() == [5]
    _, slope = func.jvp(lambda p: [p["a"].sum()], (params,), ({"a": f64(1.0, 1.0), "rest": [f64(0.0), (f64(0.0),)]},))
    assert slope[0].item() == 2
    for jacobian in (func.jacrev, func.jacfwd):
        whole = jacobian(lambda p: {"out": p["a"] * p["rest"][0]})(params)
        assert whole["out"]["a"].tolist() == [[3, 0], [0, 3]] and whole["out"]["rest"][0].tolist() == [[1], [2]]
    with pytest.raises(TypeError, match="expected Tensors"):
        func.grad(lambda x: x)(1.0)


def test_modules_as_functions_of_their_parameters():
    fl.manual_seed(0)
    model = fl.nn.Sequential(fl.nn.Linear(3, 4), fl.nn.Tanh(), fl.nn.Linear(4, 1)).double()
    x, y = fl.randn(5, 3, dtype=fl.float64), fl.randn(5, 1, dtype=fl.float64)
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(params):
        return fl.nn.functional.mse_loss(func.functional_call(model, params, (x,)), y)

    found = func.grad(loss)(params)
    fl.nn.functional.mse_loss(model(x), y).backward()
    for name, p in model.named_parameters():
        np.testing.assert_allclose(found[name].numpy(), p.grad.numpy(), rtol=1e-14)
    directions = {name: fl.randn_like(p) for name, p in params.items()}
    _, slope = func.jvp(loss, (params,), (directions,))
    expected = sum((found[name] * directions[name]).sum().item() for name in params)
    assert slope.item() == pytest.approx(expected, rel=1e-12)
    zeros = {name: fl.zeros_like(p) for name, p in params.items()}
    assert func.functional_call(model, zeros, x).abs().sum().item() == 0
    assert model(x).abs().sum().item() > 0
    with pytest.raises(KeyError):
        func.functional_call(model, {"nothing": x}, x)
    with pytest.raises(RuntimeError, match="missing"):
        func.functional_call(model, {"0.weight": params["0.weight"]}, x, strict=True)


def test_tied_weights_are_replaced_together():
    class Tied(fl.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = fl.nn.Linear(2, 2, bias=False)
            self.second = fl.nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    model, twice = Tied(), {"first.weight": 2 * fl.eye(2)}
    x = fl.tensor([1.0, 3.0])
    assert func.functional_call(model, twice, x).tolist() == [4, 12]
    model.second.weight = fl.nn.Parameter(fl.eye(2))
    assert func.functional_call(model, twice, x).tolist() == [2, 6]


def cubes(a: fl.Tensor):
    return lambda w: (a * w**3).sum()


NESTED = {
    "grad": lambda a, w: func.grad(cubes(a))(w),
    "the value beside a gradient": lambda a, w: func.grad_and_value(cubes(a))(w)[1],
    "vjp": lambda a, w: func.vjp(lambda w: a * w**3, w)[1](fl.ones(2))[0],
    "jacrev": lambda a, w: func.jacrev(lambda w: a * w**3)(w),
    "hessian": lambda a, w: func.hessian(cubes(a))(w),
    "grad of grad": lambda a, w: func.grad(lambda w: func.grad(cubes(a))(w).sum())(w),
    "jvp of grad": lambda a, w: func.jvp(func.grad(cubes(a)), (w,), (fl.ones(2),))[1],
}
# The sums of derivatives of a w^3 by a: powers of w with these factors.
OF_A = {"grad": (3, 2), "the value beside a gradient": (1, 3), "vjp": (3, 2), "jacrev": (3, 2)}


@pytest.mark.parametrize("name", NESTED)
def test_inner_transforms_keep_gradients_of_what_they_capture(name):
    """Also where no argument of the inner one requires a gradient, by transforms around it and by `backward`."""
    a, w = fl.tensor([0.5, 0.7]), fl.tensor([1.0, 2.0])
    factor, power = OF_A.get(name, (6, 1))
    expected = [factor * x**power for x in (1.0, 2.0)]

    def total(a):
        return NESTED[name](a, w).sum()

    assert func.grad(total)(a).tolist() == pytest.approx(expected)
    assert func.jacrev(total)(a).tolist() == pytest.approx(expected)
    each = func.vmap(func.grad(total))(fl.stack([a, 2 * a]))
    assert each.flatten().tolist() == pytest.approx(2 * expected)
    leaf = a.clone().requires_grad_()
    total(leaf).backward()
    assert leaf.grad.tolist() == pytest.approx(expected)


def test_a_variable_is_not_the_one_of_the_transform_around_it():
    inner = lambda x: func.grad(lambda y: x * y)(fl.tensor(2.0))
    assert func.grad(lambda x: x * inner(x))(fl.tensor(3.0)).item() == 6.0


def test_results_have_no_graph_without_need():
    x, p = fl.tensor([1.0, 2.0]), fl.tensor([3.0, 4.0], requires_grad=True)
    assert not func.grad(lambda w: (w * w).sum())(x).requires_grad
    assert func.grad(lambda w: (w * p).sum())(x).requires_grad
    with fl.no_grad():
        assert not func.grad(lambda w: (w * p).sum())(x).requires_grad


def test_gradients_of_penalties_reach_parameters():
    layer = fl.nn.Linear(3, 1)
    x = fl.randn(4, 3)
    func.vmap(func.grad(lambda row: layer(row).pow(2).sum()))(x).norm().backward()
    found = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    slopes = 2 * layer(x) * layer.weight
    slopes.norm().backward()
    for p, grad in zip(layer.parameters(), found):
        assert fl.allclose(p.grad, grad, rtol=1e-4)


def test_arguments_are_distinct():
    for transform in (func.grad, func.jacrev):
        with pytest.raises(RuntimeError, match="unique"):
            transform(lambda x, y: (x * y).sum(), argnums=(0, -2))(fl.ones(2), fl.ones(2))
