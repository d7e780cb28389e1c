"""Attributes, methods, indexing and operators of arrays, as the Array API standard has them."""

import operator

import numpy as np
import pytest

import flambeau as fl
from array_api_samples import ALL, COMPLEX, INTEGER, NUMERIC, REAL, SIGNED, Draw, array, assert_same, dtype
from flambeau import array_api as xp


def test_the_namespace():
    x = xp.ones(2)
    assert x.__array_namespace__() is xp and fl.nn.Parameter(x).__array_namespace__(api_version="2022.12") is xp
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12", None):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match="api_version"):
        x.__array_namespace__(api_version="2019.01")


@pytest.mark.parametrize("kind", ALL)
def test_attributes(kind):
    x = xp.ones((2, 3), dtype=dtype(kind))
    assert x.dtype == dtype(kind) and x.ndim == 2 and x.shape == (2, 3) and isinstance(x.shape, tuple)
    assert x.device == fl.device("cpu") and x.T.shape == x.mT.shape == (3, 2)
    assert xp.ones((4, 2, 3), dtype=dtype(kind)).mT.shape == (4, 3, 2)
    assert x.to_device(x.device).tolist() == x.tolist() and x.to_device("cpu", stream=None).dtype == x.dtype
    with pytest.raises(ValueError, match="to_device"):
        x.to_device("cpu", stream=1)
    assert isinstance(x, type(xp.zeros(1)))


def test_numbers_of_python():
    for kind in NUMERIC:
        assert complex(xp.asarray(3, dtype=dtype(kind))) == 3
        if kind not in COMPLEX:
            assert float(xp.asarray(3, dtype=dtype(kind))) == 3.0 and int(xp.asarray(3, dtype=dtype(kind))) == 3
    for kind in INTEGER:
        assert operator.index(xp.asarray(3, dtype=dtype(kind))) == 3 and [5, 6, 7][xp.asarray(1, dtype=dtype(kind))] == 6
    assert bool(xp.asarray(True)) is True and bool(xp.asarray(0.0)) is False
    assert float(xp.asarray(True)) == 1.0 and np.isinf(float(xp.asarray(np.inf)))
    for call in (bool, float, int, complex, operator.index):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            call(xp.ones(2, dtype=xp.int64))
    with pytest.raises((TypeError, RuntimeError)):
        operator.index(xp.ones(()))


KEYS = [
    0,
    -1,
    (1, 2),
    (slice(None), 1),
    slice(0, 1),
    (slice(1, None), slice(None, -1)),
    (slice(0, 2, 2), Ellipsis, -1),
    (Ellipsis, None),
    (None, 0, Ellipsis),
    (),
    Ellipsis,
    (slice(3, 5), slice(2, 1)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("kind", ["bool", "int16", "float64", "complex64"])
def test_indexing(kind, key):
    values, x = Draw(kind).pair(kind, (2, 3, 4))
    assert_same(x[key], values[key])
    changed = xp.asarray(x, copy=True)
    changed[key] = x[key] if kind == "bool" else 1
    values[key] = values[key] if kind == "bool" else 1
    assert_same(changed, values)


def test_indexing_by_arrays():
    values, x = Draw(1).pair("float64", (3, 4))
    mask = values > 0
    assert_same(x[array(mask)], values[mask])
    assert_same(x[array(mask[:, 0])], values[mask[:, 0]])
    assert_same(x[xp.asarray([2, 0, -1]), 1], values[[2, 0, -1], 1])
    assert_same(x[xp.asarray([[0, 1], [2, 2]]), xp.asarray([3, 0])], values[[[0, 1], [2, 2]], [3, 0]])
    one = xp.asarray(3.0)
    assert one[xp.asarray(True)].shape == (1,) and one[xp.asarray(False)].shape == (0,) and one[()].item() == 3.0
    changed = xp.asarray(x, copy=True)
    changed[array(mask)] = 0.0
    assert_same(changed, np.where(mask, 0.0, values))
    for wrong in (5, (0, 0, 0)):
        with pytest.raises(IndexError):
            x[wrong]


def test_dlpack():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert x.__dlpack_device__() == (1, 0)
    for options in ({}, {"max_version": (1, 0)}, {"copy": True}, {"dl_device": (1, 0)}, {"stream": None}):
        assert "dltensor" in repr(x.__dlpack__(**options))
    with pytest.raises((BufferError, ValueError)):
        x.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("symbol", ["+", "-", "*", "@", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"])
def test_operators_in_place_and_reflected(symbol):
    """`x op= y` stores what `x op y` gives, in an array of the same type; `1 op x` is the function of a number and an array."""
    kinds = SIGNED if symbol in ("&", "|", "^", "<<", ">>") else REAL if symbol == "/" else SIGNED + REAL
    for kind in kinds:
        shape = (2, 2) if symbol == "@" else (2, 3)
        values, x = Draw(symbol).pair(kind, shape, low=1, high=3)
        other, y = Draw(symbol + kind).pair(kind, shape, low=1, high=3)
        values, other = np.abs(values), np.abs(other)
        x, y = array(values), array(other)
        expected = eval(f"values {symbol} other")
        names = {"x": x, "y": y}
        exec(f"x {symbol}= y", names)
        assert names["x"] is x
        assert_same(x, expected, kind)
        if symbol != "@":
            assert_same(eval(f"2 {symbol} y"), eval(f"np.asarray(2, dtype=kind) {symbol} other"), kind)


def test_unary_operators():
    for kind in SIGNED + REAL + COMPLEX:
        values, x = Draw(kind).pair(kind, (2, 3), low=-9, high=9)
        assert_same(-x, -values)
        assert_same(+x, values)
        assert_same(abs(x), np.abs(values))
    for kind in ["bool", *SIGNED]:
        values, x = Draw(kind).pair(kind, (2, 3))
        assert_same(~x, ~values)


def test_what_deviates():
    """What the page of deviations says of arrays is so."""
    x = xp.ones((2, 3))
    assert x.size() == (2, 3) and x.numel() == 6
    wide = xp.ones((), dtype=xp.float64)
    assert (x + wide).dtype == xp.float32 and xp.add(x, wide).dtype == xp.float64
    with pytest.raises(ValueError, match="step"):
        x[::-1]
    zero = xp.asarray([-0.0])
    assert np.signbit((zero % xp.ones(1)).tolist()[0]) and not np.signbit(xp.remainder(zero, xp.ones(1)).tolist()[0])
    for call in (lambda: xp.asarray([1]) // xp.asarray([0]), lambda: xp.remainder(xp.asarray([1]), 0)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call()
