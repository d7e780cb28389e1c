"""Functions written in Python on top of operators, against NumPy and against what they are made of."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F

POINTS = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.5], [1.0, 1.0], [0.3, 1.7], [2.0, 2.0], [-1.0, 0.0]])


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("bins", "range"),
    [(3, None), ([2, 3], None), ([2, 3], [0.0, 1.0, 0.0, 2.0]), ([[0.0, 0.5, 2.0], [0.0, 1.0, 1.5]], None)],
)
def test_histogramdd(bins, range, weighted, density):
    weight = np.arange(1.0, 8.0) if weighted else None
    pairs = None if range is None else list(zip(range[::2], range[1::2]))
    expected, expected_edges = np.histogramdd(POINTS, bins, pairs, weights=weight, density=density)
    given = [fl.tensor(row, dtype=fl.float64) for row in bins] if isinstance(bins, list) and isinstance(bins[0], list) else bins
    weight = None if weight is None else fl.from_numpy(weight)
    hist, edges = fl.histogramdd(fl.from_numpy(POINTS), given, range=range, weight=weight, density=density)
    np.testing.assert_allclose(hist.numpy(), expected, rtol=1e-12)
    for found, row in zip(edges, expected_edges):
        np.testing.assert_allclose(found.numpy(), row, rtol=1e-12)


def test_histogramdd_refuses():
    for points, bins, words in (
        (fl.ones(3), 2, "at least 2 dimensions"),
        (fl.ones(3, 2), [2], "equal to the innermost"),
        (fl.ones(3, 2), [2, 0], "must be > 0"),
    ):
        with pytest.raises(RuntimeError, match=words):
            fl.histogramdd(points, bins)


def test_linear_cross_entropy():
    fl.manual_seed(0)
    x, target = fl.randn(4, 5, requires_grad=True), fl.tensor([0, 2, 1, 2])
    layer = nn.Linear(5, 3)
    found = F.linear_cross_entropy(x, layer.weight, target, linear_bias=layer.bias, label_smoothing=0.1)
    assert found.item() == F.cross_entropy(layer(x), target, label_smoothing=0.1).item()
    # Two targets for each row: the classes come first.
    weight, targets = fl.randn(3, 2, 5), fl.tensor([[0, 2], [2, 2], [1, 0], [0, 1]])
    found = F.linear_cross_entropy(x, weight, targets, reduction="none")
    scores = (x @ weight.reshape(6, 5).T).reshape(4, 3, 2)
    assert (found - F.cross_entropy(scores, targets, reduction="none")).abs().max() < 1e-6
    with pytest.raises(RuntimeError, match="in_features"):
        F.linear_cross_entropy(x, fl.ones(3, 4), target)
    with pytest.raises(RuntimeError, match="batched"):
        F.linear_cross_entropy(x[0], weight, target[0])


def test_rrelu():
    layer, x = nn.RReLU(0.1, 0.3), fl.tensor([2.0] * 10 + [-1.0] * 1000)
    made = layer(x)
    assert made[:10].tolist() == [2.0] * 10
    assert -0.3 <= made[10:].min() < -0.28 and -0.12 < made[10:].max() <= -0.1
    assert fl.allclose(layer.eval()(x)[10:], fl.full([1000], -0.2))
    assert F.rrelu_(x, 0.5, 0.5) is x and x[-1] == -0.5
    assert repr(nn.RReLU(inplace=True)) == "RReLU(lower=0.125, upper=0.3333333333333333, inplace=True)"


def test_linear_algebra_has_its_names():
    a, b = np.arange(6.0).reshape(2, 3), np.array([[1.0, 0.0, 2.0], [0.5, -1.0, 1.0]])
    ours = fl.from_numpy(a), fl.from_numpy(b)
    np.testing.assert_allclose(fl.linalg.cross(*ours).numpy(), np.cross(a, b))
    np.testing.assert_allclose(fl.linalg.vecdot(*ours).numpy(), (a * b).sum(-1))
    np.testing.assert_allclose(fl.linalg.matrix_norm(ours[0]).numpy(), np.linalg.norm(a))
    np.testing.assert_allclose(fl.linalg.norm(ours[0], 1).numpy(), np.linalg.norm(a, 1))
    np.testing.assert_allclose(fl.linalg.multi_dot([ours[0], ours[1].T, ours[0]]).numpy(), a @ b.T @ a)
    np.testing.assert_allclose(fl.linalg.matrix_power(ours[0] @ ours[1].T, 3).numpy(), np.linalg.matrix_power(a @ b.T, 3))
    np.testing.assert_allclose(fl.linalg.vander(ours[0][0]).numpy(), np.vander(a[0], increasing=True))
    assert fl.linalg.diagonal(ours[0]).tolist() == [0.0, 4.0]
