"""Values where formulas lose them: zeros with a sign, quotients of zeros, sums that grow past the digits of their type."""

import itertools
import math
import random

import pytest

import flambeau as fl

FLOATS = [fl.float16, fl.bfloat16, fl.float32, fl.float64]


def signs(values):
    return [math.copysign(1, value) for value in values.flatten().tolist()]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 3, 8, 17, 65, 1000])
def test_zero_is_greater_than_minus_zero(dtype, n):
    draw = random.Random(n)
    a, b = (fl.tensor([draw.choice([0.0, -0.0]) for _ in range(n)], dtype=dtype) for _ in range(2))
    greater = [max(pair) for pair in zip(signs(a), signs(b))]
    lesser = [min(pair) for pair in zip(signs(a), signs(b))]
    for name, expected in [("maximum", greater), ("fmax", greater), ("minimum", lesser), ("fmin", lesser)]:
        assert signs(getattr(fl, name)(a, b)) == expected, name
    assert signs(a.clamp_min(b)) == greater and signs(a.clamp_max(b)) == lesser
    for bound in (0.0, -0.0):
        assert signs(a.clamp_min(bound)) == [max(s, math.copysign(1, bound)) for s in signs(a)]
        assert signs(a.clamp_max(bound)) == [min(s, math.copysign(1, bound)) for s in signs(a)]
        assert signs(fl.maximum(a, fl.tensor(bound, dtype=dtype))) == signs(a.clamp_min(bound))
    nan = fl.full((n,), math.nan, dtype=dtype)
    assert fl.minimum(a, nan).isnan().all() and fl.maximum(nan, a).isnan().all()
    assert signs(fl.fmin(a, nan)) == signs(a) == signs(fl.fmax(nan, a))


def sinc_derivatives(x):
    """First and second, by the series where that is exact and by the formula elsewhere."""
    z = math.pi * x
    if abs(z) < 1:
        terms = [(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(1, 14)]
        first = sum(t * 2 * k * x ** (2 * k - 1) for k, t in enumerate(terms, 1))
        second = sum(t * 2 * k * (2 * k - 1) * x ** (2 * k - 2) for k, t in enumerate(terms, 1))
        return first, second
    first = math.cos(z) / x - math.sin(z) / (z * x)
    return first, -math.pi * math.sin(z) / x - 2 * first / x


def test_derivatives_of_sinc():
    points = [0.0, -0.0, 1e-9, -1e-5, 1e-3, 0.01, 0.1, 0.2499, 0.25, 0.2501, -0.3, 0.5, 1.0, 2.7, -10.25]
    x = fl.tensor(points, dtype=fl.float64, requires_grad=True)
    (first,) = fl.autograd.grad(fl.sinc(x).sum(), x, create_graph=True)
    (second,) = fl.autograd.grad(first.sum(), x)
    for point, one, two in zip(points, first.tolist(), second.tolist()):
        expected = sinc_derivatives(point)
        assert math.isclose(one, expected[0], rel_tol=1e-13, abs_tol=1e-15), point
        assert math.isclose(two, expected[1], rel_tol=1e-12, abs_tol=1e-13), point
    narrow = fl.tensor(points, requires_grad=True)
    fl.sinc(narrow).sum().backward()
    for point, one in zip(points, narrow.grad.tolist()):
        assert math.isclose(one, sinc_derivatives(point)[0], rel_tol=1e-5, abs_tol=1e-6), point


@pytest.mark.parametrize("p", [-1.0, -2.5, 0.5, 1.5, 2.0, 3.0])
def test_norms_of_rows_with_zeros(p):
    x = fl.tensor([[0.0, 2.0, -1.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]], dtype=fl.float64, requires_grad=True)
    fl.linalg.vector_norm(x, ord=p, dim=1).sum().backward()
    got, step = x.grad.tolist(), 1e-6
    for i, j in itertools.product(range(3), range(3)):
        if x[i, j] == 0:
            assert got[i][j] == 0
            continue
        ends = []
        for sign in (1, -1):
            moved = x.detach().clone()
            moved[i, j] += sign * step
            ends.append(fl.linalg.vector_norm(moved[i], ord=p).item())
        assert math.isclose(got[i][j], (ends[0] - ends[1]) / (2 * step), rel_tol=1e-6, abs_tol=1e-8)


def test_sums_past_the_digits_of_float32():
    n = 4001
    terms = fl.cat([fl.tensor([2.0**24]), fl.ones(n - 1)])
    whole = 2**24 + n - 1
    assert fl.bincount(fl.zeros(n, dtype=fl.int64), terms).item() == whole
    assert fl.bincount(fl.zeros(n, dtype=fl.int64), terms).dtype is fl.float32
    assert terms.cumsum(0)[-1].item() == whole
    # Added up one by one, four thousand of them would be lost; side by side it is as many as one lane has.
    for sizes in ((1, 1, 4000), (1, 40, 100)):
        pooled = fl.nn.functional.adaptive_avg_pool2d(terms[:4000].reshape(sizes), 1)
        assert math.isclose(pooled.item(), (whole - 1) / 4000, rel_tol=2e-5)


def test_rows_without_elements_are_0_apart():
    for p in (0.0, 1.0, 2.0, 3.0, math.inf):
        assert fl.cdist(fl.zeros(2, 0), fl.zeros(3, 0), p=p).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_a_batch_of_ignored_targets_has_gradients_of_0(smoothing):
    x = fl.randn(3, 4).requires_grad_()
    loss = fl.nn.functional.cross_entropy(x, fl.full((3,), -100), label_smoothing=smoothing)
    loss.backward()
    assert math.isnan(loss.item()) and x.grad.tolist() == fl.zeros(3, 4).tolist()


def test_running_statistics_of_no_elements():
    mean, var = fl.tensor([0.5, 2.0]), fl.tensor([3.0, 4.0])
    fl.nn.functional.batch_norm(fl.zeros(3, 2, 0), mean, var, training=True)
    assert mean.tolist() == [0.5, 2.0] and var.tolist() == [3.0, 4.0]
