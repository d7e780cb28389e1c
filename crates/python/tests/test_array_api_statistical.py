"""Sums, products, extremes, moments, and tests of all elements of the Array API, against NumPy."""

import math

import numpy as np
import pytest

from array_api_samples import ALL, FLOATING, INTEGER, NUMERIC, REAL, UNSIGNED, Draw, assert_same, dtype
from flambeau import array_api as xp

ROUNDS = 8
TYPES = {
    "all": ALL,
    "any": ALL,
    "max": INTEGER + REAL,
    "mean": FLOATING,
    "min": INTEGER + REAL,
    "prod": NUMERIC,
    "std": REAL,
    "sum": NUMERIC,
    "var": REAL,
}


def summed(kind):
    """The type of sums: default integers, of which unsigned ones need uint64."""
    if kind in INTEGER:
        return "uint64" if kind in UNSIGNED and "uint64" in UNSIGNED else "int64"
    return kind


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", TYPES)
def test_reductions(name):
    """Over all axes, some, or none, which is not all."""
    draw = Draw(name)
    for kind in TYPES[name]:
        for _ in range(ROUNDS):
            smallest = 1 if name in ("max", "min", "std", "var", "mean") else 0
            values, x = draw.pair(kind, draw.shape(smallest=smallest), low=0, high=5, special=name in ("max", "min") and kind in REAL)
            axes, keepdims = draw.axes(values.ndim), draw.choice([True, False])
            options = {"correction": draw.choice([0, 0.5])} if name in ("std", "var") else {}
            given = {"ddof": options["correction"]} if options else {"dtype": summed(kind)} if name in ("sum", "prod") else {}
            expected = np.asarray(getattr(np, name)(values, axis=axes, keepdims=keepdims, **given))
            found = getattr(xp, name)(x, axis=axes, keepdims=keepdims, **options)
            assert_same(found, expected, "bool" if name in ("all", "any") else summed(kind) if name in ("sum", "prod") else kind, note=(kind, axes))


@pytest.mark.parametrize("name", TYPES)
def test_axes_are_checked(name):
    x = xp.ones((2, 3), dtype=xp.bool if name in ("all", "any") else xp.float32)
    for axis in (2, -3, (0, 2)):
        with pytest.raises(IndexError, match=name):
            getattr(xp, name)(x, axis=axis)
    with pytest.raises(ValueError, match="different axes"):
        getattr(xp, name)(x, axis=(0, -2))


def test_types_of_sums():
    for kind in NUMERIC:
        x = xp.ones((2, 3), dtype=dtype(kind))
        for function in (xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod):
            axis = 0
            assert function(x, axis=axis).dtype == dtype(summed(kind)), kind
            assert function(x, axis=axis, dtype=dtype(kind)).dtype == dtype(kind)
    assert xp.sum(xp.full(300, 1, dtype=xp.int8)).item() == 300
    assert xp.mean(xp.asarray([1, 2])).item() == 1.5


def test_no_elements():
    empty = xp.ones((0, 2))
    assert xp.sum(empty).item() == 0 and xp.prod(empty).item() == 1 and math.isnan(xp.mean(empty).item())
    assert xp.all(empty).item() is True and xp.any(empty).item() is False
    assert xp.sum(empty, axis=0).tolist() == [0, 0] and xp.sum(empty, axis=1).shape == (0,)


def test_nan_propagates():
    x = xp.asarray([1.0, math.nan, 2.0])
    for function in (xp.sum, xp.prod, xp.max, xp.min, xp.mean, xp.std, xp.var):
        assert math.isnan(function(x).item())
    assert math.isnan(xp.var(xp.asarray([1.0]), correction=1).item())


@pytest.mark.parametrize("name, initial", [("cumulative_sum", 0), ("cumulative_prod", 1)])
def test_cumulative(name, initial):
    draw = Draw(name)
    for kind in NUMERIC:
        for _ in range(ROUNDS):
            values, x = draw.pair(kind, draw.shape(fewest=1), low=0, high=3)
            axis = draw.axis(values.ndim)
            expected = getattr(np, name.replace("ulative_", ""))(values, axis, dtype=summed(kind))
            assert_same(getattr(xp, name)(x, axis=axis), expected)
            shape = list(values.shape)
            shape[axis] = 1
            expected = np.concatenate([np.full(shape, initial, dtype=expected.dtype), expected], axis)
            assert_same(getattr(xp, name)(x, axis=axis, include_initial=True), expected)
    assert getattr(xp, name)(xp.asarray([2, 3])).tolist() == ([2, 5] if initial == 0 else [2, 6])
    with pytest.raises(ValueError, match="expected an axis"):
        getattr(xp, name)(xp.ones((2, 2)))


@pytest.mark.parametrize("kind", NUMERIC)
def test_diff(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, draw.shape(smallest=3, fewest=1), low=0, high=50)
        axis, count = draw.axis(values.ndim), draw.random.randint(0, 2)
        assert_same(xp.diff(x, axis=axis, n=count), np.diff(values, count, axis))
        assert_same(xp.diff(x, axis=axis, prepend=x, append=x), np.diff(values, 1, axis, values, values))
    with pytest.raises(IndexError, match="diff"):
        xp.diff(xp.ones(2), axis=1)
