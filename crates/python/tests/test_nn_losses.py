"""Losses beside their formulas in NumPy's float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 4))
P, Q = RNG.uniform(0.05, 0.95, (5, 4)), RNG.uniform(0.05, 0.95, (5, 4))
S = np.sign(RNG.normal(size=(5, 4)))
CLASSES = np.array([0, 3, 1, 1, 2])


def here(array):
    array = np.asarray(array)
    dtype = flambeau.int64 if array.dtype.kind == "i" else flambeau.float64
    return flambeau.tensor(array.tolist(), dtype=dtype)


def there(tensor):
    return np.array(tensor.tolist())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def cosine(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def distance(a, b):
    return np.linalg.norm(a - b + 1e-6, axis=1)


LOSSES = [
    ("L1Loss", {}, (X, Y), abs(X - Y)),
    ("MSELoss", {}, (X, Y), (X - Y) ** 2),
    ("SmoothL1Loss", {"beta": 0.7}, (X, Y), np.where(abs(X - Y) < 0.7, (X - Y) ** 2 / 1.4, abs(X - Y) - 0.35)),
    ("SmoothL1Loss", {"beta": 0.0}, (X, Y), abs(X - Y)),
    ("HuberLoss", {"delta": 0.7}, (X, Y), np.where(abs(X - Y) < 0.7, (X - Y) ** 2 / 2, 0.7 * (abs(X - Y) - 0.35))),
    ("NLLLoss", {}, (X, CLASSES), -X[np.arange(5), CLASSES]),
    ("CrossEntropyLoss", {}, (X, CLASSES), -log_softmax(X)[np.arange(5), CLASSES]),
    ("CrossEntropyLoss", {}, (X, P), -(log_softmax(X) * P).sum(1)),
    ("BCELoss", {}, (P, Q), -(Q * np.log(P) + (1 - Q) * np.log(1 - P))),
    ("BCEWithLogitsLoss", {}, (X, Q), -(Q * np.log(sigmoid(X)) + (1 - Q) * np.log(sigmoid(-X)))),
    ("KLDivLoss", {}, (X, P), P * (np.log(P) - X)),
    ("KLDivLoss", {"log_target": True}, (X, Y), np.exp(Y) * (Y - X)),
    ("PoissonNLLLoss", {}, (X, Q), np.exp(X) - Q * X),
    ("PoissonNLLLoss", {"log_input": False}, (P, Q), P - Q * np.log(P + 1e-8)),
    ("GaussianNLLLoss", {"full": True}, (X, Y, P), (np.log(P) + (X - Y) ** 2 / P + math.log(2 * math.pi)) / 2),
    ("HingeEmbeddingLoss", {"margin": 0.4}, (X, S), np.where(S > 0, X, np.maximum(0.4 - X, 0))),
    ("SoftMarginLoss", {}, (X, S), np.log1p(np.exp(-S * X))),
    ("MarginRankingLoss", {"margin": 0.1}, (X, Y, S), np.maximum(-S * (X - Y) + 0.1, 0)),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (X, Y, S[:, 0]),
     np.where(S[:, 0] > 0, 1 - cosine(X, Y), np.maximum(cosine(X, Y) - 0.1, 0))),
    ("MultiLabelSoftMarginLoss", {}, (X, Q), -(Q * np.log(sigmoid(X)) + (1 - Q) * np.log(sigmoid(-X))).mean(1)),
    ("TripletMarginLoss", {"margin": 0.5}, (X, Y, P), np.maximum(distance(X, Y) - distance(X, P) + 0.5, 0)),
    ("TripletMarginLoss", {"swap": True}, (X, Y, P),
     np.maximum(distance(X, Y) - np.minimum(distance(X, P), distance(Y, P)) + 1, 0)),
]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name, options, inputs, expected", LOSSES, ids=lambda value: value if isinstance(value, str) else "")
def test_losses(name, options, inputs, expected, reduction):
    loss = getattr(nn, name)(**options, reduction=reduction)
    expected = {"none": expected, "mean": expected.mean(), "sum": expected.sum()}[reduction]
    np.testing.assert_allclose(there(loss(*map(here, inputs))), expected, rtol=1e-11, atol=1e-13)


def test_weights():
    weight = RNG.uniform(0.5, 2, 4)
    logs = log_softmax(X)[np.arange(5), CLASSES]
    expected = -(logs * weight[CLASSES]).sum() / weight[CLASSES].sum()
    assert nn.CrossEntropyLoss(here(weight))(here(X), here(CLASSES)).item() == pytest.approx(expected, rel=1e-12)
    assert list(nn.CrossEntropyLoss(here(weight)).state_dict()) == ["weight"]
    expected = (weight * (X - Y) ** 2).sum() / np.broadcast_to(weight, X.shape).sum()
    weighted = F.mse_loss(here(X), here(Y), weight=here(np.broadcast_to(weight, X.shape)))
    assert weighted.item() == pytest.approx(expected, rel=1e-12)
    expected = -(Q * np.log(P) + (1 - Q) * np.log(1 - P)) * weight
    np.testing.assert_allclose(there(nn.BCELoss(here(weight), reduction="none")(here(P), here(Q))), expected, rtol=1e-12)
    expected = -(Q * weight * np.log(sigmoid(X)) + (1 - Q) * np.log(sigmoid(-X)))
    loss = nn.BCEWithLogitsLoss(pos_weight=here(weight), reduction="none")
    np.testing.assert_allclose(there(loss(here(X), here(Q))), expected, rtol=1e-12)


def test_smoothed_and_ignored_classes():
    logs = log_softmax(X)
    smooth = -(0.9 * logs[np.arange(5), CLASSES] + 0.1 * logs.mean(1))
    keep = CLASSES != 1
    loss = nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=1)
    assert loss(here(X), here(CLASSES)).item() == pytest.approx(smooth[keep].mean(), rel=1e-12)


def test_cross_entropy_of_pictures():
    x, classes = RNG.normal(size=(2, 3, 4, 5)), RNG.integers(0, 3, (2, 4, 5))
    expected = -np.take_along_axis(log_softmax(x), classes[:, None], 1)[:, 0]
    np.testing.assert_allclose(there(nn.CrossEntropyLoss(reduction="none")(here(x), here(classes))), expected, rtol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_cross_entropy_of_a_linear_layer(bias):
    loss = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), bias=bias, dtype=flambeau.float64, reduction="none")
    classes = RNG.integers(0, 3, (5, 2))
    scores = X @ there(loss.linear.weight).T + (there(loss.linear.bias) if bias else 0)
    expected = -np.take_along_axis(log_softmax(scores.reshape(5, 3, 2)), classes[:, None], 1)[:, 0]
    np.testing.assert_allclose(there(loss(here(X), here(classes))), expected, rtol=1e-12)
    assert list(loss.state_dict()) == ["linear.weight"] + ["linear.bias"] * bias
    with pytest.raises(RuntimeError, match="expected weight shape"):
        nn.LinearCrossEntropyLoss(4, 3, weight=here(X[0]))


def test_batchmean():
    expected = (P * (np.log(P) - X)).sum() / 5
    assert F.kl_div(here(X), here(P), reduction="batchmean").item() == pytest.approx(expected, rel=1e-12)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="is not a valid value for reduction"):
        F.l1_loss(here(X), here(Y), reduction="median")
    with pytest.raises(ValueError, match="Target size"):
        F.binary_cross_entropy_with_logits(here(X), here(Y[:, :1]))
    with pytest.warns(UserWarning, match="Using a target size"):
        F.mse_loss(here(X), here(Y[:, :1]))
    with pytest.raises(ValueError, match="greater than 0"):
        nn.TripletMarginLoss(margin=0)


def test_flags_of_old():
    assert nn.L1Loss(reduce=False).reduction == "none" and nn.L1Loss(size_average=False).reduction == "sum"
