"""Values to begin with have the spread they should, and come again with the seed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import init
from flambeau.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)

SHAPE = (300, 200)


@pytest.fixture(autouse=True)
def seed():
    flambeau.manual_seed(1)


def there(tensor):
    return np.array(tensor.tolist())


def is_uniform(values, bound):
    """Kolmogorov's distance from the uniform distribution; 1.95 / sqrt(n) is passed once in a thousand."""
    values = np.sort(values.ravel())
    expected = (values + bound) / (2 * bound)
    return abs(expected - np.arange(1, values.size + 1) / values.size).max() < 1.95 / math.sqrt(values.size)


def is_normal(values, std):
    values = np.sort(values.ravel())
    expected = (1 + np.vectorize(math.erf)(values / std / math.sqrt(2))) / 2
    return abs(expected - np.arange(1, values.size + 1) / values.size).max() < 1.95 / math.sqrt(values.size)


@pytest.mark.parametrize("fill, bound", [
    (lambda t: init.uniform_(t, -0.3, 0.3), 0.3),
    (init.xavier_uniform_, math.sqrt(6 / 500)),
    (lambda t: init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(6 / 500)),
    (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(6 / 200)),
    (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), math.sqrt(1 / 200)),
    (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="linear"), math.sqrt(3 / 300)),
])
def test_uniform(fill, bound):
    tensor = flambeau.empty(SHAPE)
    assert fill(tensor) is tensor
    assert is_uniform(there(tensor), bound)


@pytest.mark.parametrize("fill, std", [
    (lambda t: init.normal_(t, 0.0, 0.7), 0.7),
    (init.xavier_normal_, math.sqrt(2 / 500)),
    (lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 300)),
])
def test_normal(fill, std):
    assert is_normal(there(fill(flambeau.empty(SHAPE))), std)


def test_the_checks_can_fail():
    values = there(flambeau.empty(SHAPE).uniform_(-1, 1))
    assert not is_uniform(values, 1.05) and not is_normal(values, values.std())


@pytest.mark.parametrize("mean, std, low, high", [(0, 1, -2, 2), (1, 2, 0, 1.5), (0, 1, 4, 6), (0, 1, -0.01, 0.02), (0, 1, 5, 1e6)])
def test_cut_normal(mean, std, low, high):
    values = np.sort(there(init.trunc_normal_(flambeau.empty(20_000, dtype=flambeau.float64), mean, std, low, high)))
    assert values[0] >= low and values[-1] <= high
    # The part above a value, by the complementary error function, which is exact far out.
    above = lambda x: np.vectorize(math.erfc)((np.asarray(x) - mean) / std / math.sqrt(2))  # noqa: E731
    expected = (above(low) - above(values)) / (above(low) - above(high))
    assert abs(expected - np.arange(1, values.size + 1) / values.size).max() < 1.95 / math.sqrt(values.size)


def test_fixed_values():
    assert there(init.constant_(flambeau.empty(2, 2), 0.5)).tolist() == [[0.5, 0.5]] * 2
    assert there(init.ones_(flambeau.empty(2))).tolist() == [1, 1] and there(init.zeros_(flambeau.empty(2))).tolist() == [0, 0]
    np.testing.assert_array_equal(there(init.eye_(flambeau.empty(2, 3))), np.eye(2, 3))
    weight, x = init.dirac_(flambeau.empty(4, 2, 3, 3), groups=2), flambeau.randn(1, 4, 5, 5)
    out = nn.functional.conv2d(x, weight, padding=1, groups=2)
    np.testing.assert_array_equal(there(out), there(x))


def test_gains():
    assert init.calculate_gain("linear") == init.calculate_gain("conv2d") == init.calculate_gain("sigmoid") == 1
    assert init.calculate_gain("relu") == math.sqrt(2) and init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04) and init.calculate_gain("selu") == 0.75
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("sine")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(flambeau.empty(3))
    with pytest.raises(ValueError, match="not supported, please use one of"):
        init.kaiming_uniform_(flambeau.empty(3, 3), mode="fan")


def test_layers_begin_as_they_should():
    linear = nn.Linear(200, 300)
    assert is_uniform(there(linear.weight), 1 / math.sqrt(200))
    assert abs(there(linear.bias)).max() <= 1 / math.sqrt(200)
    conv = nn.Conv2d(40, 50, 5)
    assert is_uniform(there(conv.weight), 1 / math.sqrt(1000))
    assert is_normal(there(nn.Embedding(100, 50).weight), 1.0)
    assert is_uniform(there(nn.MultiheadAttention(64, 4).in_proj_weight), math.sqrt(6 / (64 * 4)))


def test_seeds_and_generators():
    def draw(generator=None):
        return init.normal_(flambeau.empty(5), generator=generator).tolist()

    flambeau.manual_seed(3)
    first = nn.Linear(3, 3).weight.tolist()
    flambeau.manual_seed(3)
    assert nn.Linear(3, 3).weight.tolist() == first
    generator = flambeau.Generator()
    generator.manual_seed(4)
    one = draw(generator)
    generator.manual_seed(4)
    assert draw(generator) == one and draw(generator) != one


def test_no_history():
    layer = nn.Linear(2, 2)
    init.kaiming_normal_(layer.weight)
    assert layer.weight.is_leaf and layer.weight.grad_fn is None


def gradients(*values):
    params = [nn.Parameter(flambeau.zeros(len(v))) for v in values]
    for param, value in zip(params, values):
        param.grad = flambeau.tensor(value)
    return params


def test_long_gradients_are_cut():
    params = gradients([3.0, 0.0], [0.0, 4.0])
    assert clip_grad_norm_(params, 1.0).item() == pytest.approx(5.0)
    np.testing.assert_allclose(there(params[0].grad), [0.6, 0], rtol=1e-5)
    assert clip_grad_norm_(params, 10.0).item() == pytest.approx(1.0, rel=1e-5)
    np.testing.assert_allclose(there(params[1].grad), [0, 0.8], rtol=1e-5)
    assert clip_grad_norm_(params, 1.0, norm_type=math.inf).item() == pytest.approx(0.8, rel=1e-5)
    assert get_total_norm([flambeau.tensor([1.0, -2.0]), flambeau.tensor([3.0])], 1).item() == 6.0
    params[0].grad.fill_(math.nan)
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert clip_grad_norm_([nn.Parameter(flambeau.zeros(1))], 1.0).item() == 0.0


def test_large_elements_are_cut():
    (param,) = gradients([-3.0, 0.5, 2.0])
    clip_grad_value_(param, 1.0)
    assert param.grad.tolist() == [-1.0, 0.5, 1.0]


def test_parameters_as_a_vector():
    net = nn.Linear(2, 3)
    vector = parameters_to_vector(net.parameters())
    assert vector.tolist() == [*net.weight.flatten().tolist(), *net.bias.tolist()]
    vector_to_parameters(flambeau.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and net.bias.tolist() == [6, 7, 8]
    assert net.weight.requires_grad
