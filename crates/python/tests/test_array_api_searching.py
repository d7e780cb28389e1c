"""Functions of the Array API that search, sort and compare sets, against NumPy."""

import numpy as np
import pytest

from array_api_samples import ALL, COMPLEX, FLOATING, INTEGER, REAL, Draw, array, assert_same, dtype
from flambeau import array_api as xp

ROUNDS = 8


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("kind", INTEGER + REAL)
def test_extremes(name, kind):
    """The first one where there are several."""
    draw = Draw(name + kind)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, draw.shape(smallest=1), low=0, high=3)
        axis = draw.choice([None, draw.axis(values.ndim)]) if values.ndim else None
        for keepdims in (True, False):
            assert_same(getattr(xp, name)(x, axis=axis, keepdims=keepdims), getattr(np, name)(values, axis, keepdims=keepdims))
    with pytest.raises(IndexError):
        getattr(xp, name)(xp.ones(2), axis=1)


@pytest.mark.parametrize("kind", ALL)
def test_elements_that_are_not_0(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, draw.shape(fewest=1), low=0, high=1)
        assert_same(xp.nonzero(x), np.nonzero(values))
        axes = draw.axes(values.ndim)
        for keepdims in (True, False):
            expected = np.sum(values != 0, axis=axes, keepdims=keepdims, dtype="int64")
            assert_same(xp.count_nonzero(x, axis=axes, keepdims=keepdims), expected)
    with pytest.raises(ValueError, match="nonzero"):
        xp.nonzero(xp.ones(()))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", INTEGER + REAL)
def test_searchsorted(side, kind):
    draw = Draw(side + kind)
    for _ in range(ROUNDS):
        other = draw.partner(kind, INTEGER + REAL)
        edges = draw.numpy(kind, (draw.random.randint(0, 6),), low=0, high=9)
        values, x = draw.pair(other, draw.shape(2), low=0, high=9)
        order = np.argsort(edges, kind="stable")
        assert_same(xp.searchsorted(array(np.sort(edges)), x, side=side), np.searchsorted(np.sort(edges), values, side))
        assert_same(xp.searchsorted(array(edges), x, side=side, sorter=array(order)), np.searchsorted(np.sort(edges), values, side))
    assert xp.searchsorted(xp.asarray([1, 2, 3]), 2, side=side).item() == (1 if side == "left" else 2)
    with pytest.raises(ValueError, match="side"):
        xp.searchsorted(xp.ones(1), xp.ones(1), side="middle")


@pytest.mark.parametrize("kind", ALL)
def test_where(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        other = draw.partner(kind)
        shapes = draw.shapes()
        condition, c = draw.pair("bool", shapes[1])
        (left, x1), (right, x2) = draw.pair(kind, shapes[0]), draw.pair(other, shapes[1])
        assert_same(xp.where(c, x1, x2), np.where(condition, left, right), str(np.promote_types(kind, other)))
        number = kind == "bool" or (1 if kind in INTEGER else 0.5)
        assert_same(xp.where(c, x1, number), np.where(condition, left, np.asarray(number, dtype=kind)), kind)
        assert_same(xp.where(c, number, x1), np.where(condition, np.asarray(number, dtype=kind), left), kind)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", INTEGER + REAL)
def test_sorting_is_stable(descending, kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, draw.shape(fewest=1), low=0, high=2)
        axis = draw.axis(values.ndim)
        order = np.argsort(values, axis, kind="stable")
        if descending:
            # Sorted backwards, so that equal elements stay in their order.
            order = values.shape[axis] - 1 - np.flip(np.argsort(np.flip(values, axis), axis, kind="stable"), axis)
        assert_same(xp.argsort(x, axis=axis, descending=descending), order, "int64")
        assert_same(xp.sort(x, axis=axis, descending=descending), np.take_along_axis(values, order, axis))
    with pytest.raises(IndexError):
        xp.sort(xp.ones(2), axis=1)


@pytest.mark.parametrize("kind", ALL)
def test_distinct_elements(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, draw.shape(), low=0, high=3)
        values = np.round(values) if kind in FLOATING else values
        x = array(values)
        expected = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
        found = xp.unique_all(x)
        assert found._fields == ("values", "indices", "inverse_indices", "counts")
        assert_same(found, [expected[0], expected[1], expected[2].reshape(values.shape), expected[3]], note=values)
        assert_same(xp.unique_counts(x), [expected[0], expected[3]])
        assert_same(xp.unique_inverse(x), [expected[0], expected[2].reshape(values.shape)])
        assert_same(xp.unique_values(x), expected[0])
    assert xp.unique_counts(x)._fields == ("values", "counts") and xp.unique_inverse(x)._fields == ("values", "inverse_indices")


@pytest.mark.parametrize("kind", FLOATING)
def test_distinct_nan_and_zeros(kind):
    """Two NaN are not equal, two zeros are."""
    x = xp.asarray([np.nan, 0.0, 1.0, -0.0, np.nan, 0.0], dtype=dtype(kind))
    found = xp.unique_all(x)
    counts = dict(zip(found.indices.tolist(), found.counts.tolist()))
    assert counts == {0: 1, 1: 3, 2: 1, 4: 1}
    assert sorted(found.inverse_indices.tolist()) == [0, 0, 0, 1, 2, 3]
    if kind in COMPLEX:
        z = xp.asarray([complex(1, np.nan), complex(1, np.nan), 1j, complex(np.nan, 1), 1j, complex(-0.0, 1)], dtype=dtype(kind))
        assert sorted(xp.unique_counts(z).counts.tolist()) == [1, 1, 1, 3]


@pytest.mark.parametrize("kind", ALL)
def test_isin(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        other = draw.partner(kind)
        values, others = draw.numpy(kind, draw.shape(), low=0, high=5), draw.numpy(other, draw.shape(), low=0, high=5)
        if kind in FLOATING:
            values, others = np.round(values), np.round(others)
        for invert in (False, True):
            expected = np.isin(values, others, invert=invert)
            assert_same(xp.isin(array(values), array(others), invert=invert), expected, note=(values, others))
    assert xp.isin(xp.asarray([1, 2]), 2).tolist() == [False, True] and xp.isin(2, xp.asarray([1, 2])).tolist() is True
    assert xp.isin(xp.asarray([np.nan]), xp.asarray([np.nan])).tolist() == [False]
