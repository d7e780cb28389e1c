"""Functions of the Array API that create arrays, against NumPy."""

import array as buffers

import numpy as np
import pytest

import flambeau as fl
from array_api_samples import ALL, COMPLEX, FLOATING, INTEGER, NUMERIC, REAL, Draw, array, assert_same, dtype
from flambeau import array_api as xp


@pytest.mark.parametrize("kind", INTEGER + REAL)
def test_arange(kind):
    """Also where nothing is between the ends."""
    draw = Draw(kind)
    for _ in range(60):
        start, stop, step = draw.random.randint(0, 6), draw.random.randint(0, 6), draw.choice([1, 2, 3] if kind[0] == "u" else [1, 2, -1, -3])
        assert_same(xp.arange(start, stop, step, dtype=dtype(kind)), np.arange(start, stop, step, dtype=kind), note=(start, stop, step))
    assert_same(xp.arange(3), np.arange(3, dtype="int64"))
    assert_same(xp.arange(0.5, 3), np.arange(0.5, 3, dtype="float32"))
    assert_same(xp.arange(1, -1), np.arange(0))
    with pytest.raises(RuntimeError, match="step"):
        xp.arange(0, 1, 0)


@pytest.mark.parametrize("name, value", [("zeros", 0), ("ones", 1)])
def test_constant_arrays(name, value):
    for kind in ALL:
        for shape in ((), (0,), (2, 3), 4):
            assert_same(getattr(xp, name)(shape, dtype=dtype(kind)), np.full(shape, value, dtype=kind))
            like = getattr(xp, f"{name}_like")(xp.empty(shape, dtype=dtype(kind)))
            assert_same(like, np.full(shape, value, dtype=kind))
    assert getattr(xp, name)(2).dtype == xp.float32
    assert getattr(xp, f"{name}_like")(xp.empty(2), dtype=xp.int8).dtype == xp.int8


def test_full():
    for value, kind in ((True, "bool"), (3, "int64"), (2.5, "float32"), (1 - 2j, "complex64")):
        assert_same(xp.full((2, 1), value), np.full((2, 1), value).astype(kind))
        assert_same(xp.full_like(xp.full((2, 1), value), value), np.full((2, 1), value).astype(kind))
    assert_same(xp.full(2, 3, dtype=xp.float64), np.full(2, 3.0))


def test_empty():
    for kind in ALL:
        assert xp.empty((2, 0, 3), dtype=dtype(kind)).shape == (2, 0, 3)
        assert xp.empty_like(xp.ones((3, 2)), dtype=dtype(kind)).dtype == dtype(kind)


@pytest.mark.parametrize("kind", ALL)
def test_eye(kind):
    draw = Draw(kind)
    for _ in range(20):
        rows, columns, k = draw.random.randint(0, 4), draw.choice([None, 0, 1, 3, 5]), draw.random.randint(-6, 6)
        assert_same(xp.eye(rows, columns, k=k, dtype=dtype(kind)), np.eye(rows, columns, k=k, dtype=kind), note=(rows, columns, k))


@pytest.mark.parametrize("kind", FLOATING)
def test_linspace(kind):
    ends = [(0, 1), (-3.0, 7.5), (5, -2), (2, 2)] + ([(0, 1 + 2j), (1 - 1j, 3)] if kind in COMPLEX else [])
    for start, stop in ends:
        for num in (0, 1, 2, 5):
            for endpoint in (True, False):
                expected = np.linspace(start, stop, num, endpoint=endpoint, dtype=kind)
                found = xp.linspace(start, stop, num, endpoint=endpoint, dtype=dtype(kind))
                assert_same(found, expected, note=(start, stop, num, endpoint))
    assert xp.linspace(0, 1, 3).dtype == xp.float32 and xp.linspace(0, 1j, 3).dtype == xp.complex64
    with pytest.raises(ValueError, match="num >= 0"):
        xp.linspace(0, 1, -1)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing):
    for count in range(4):
        parts = [np.arange(size, dtype="float64") for size in (2, 3, 4)[:count]]
        assert_same(xp.meshgrid(*map(array, parts), indexing=indexing), np.meshgrid(*parts, indexing=indexing))
    with pytest.raises(ValueError, match="indexing"):
        xp.meshgrid(xp.ones(2), indexing="yx")


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangles(name):
    draw = Draw(name)
    for kind in ALL:
        values, x = draw.pair(kind, draw.choice([(3, 3), (2, 4), (2, 3, 2)]))
        k = draw.random.randint(-4, 4)
        assert_same(getattr(xp, name)(x, k=k), getattr(np, name)(values, k), note=(kind, k))


def test_asarray():
    for data, kind in ((True, "bool"), (3, "int64"), (2.5, "float32"), (1j, "complex64"), ([], "float32"), ([[1, 2.5]], "float32"), ((1, 2), "int64")):
        assert_same(xp.asarray(data), np.asarray(data).astype(kind))
    for kind in NUMERIC:
        assert_same(xp.asarray([[1, 2], [3, 4]], dtype=dtype(kind)), np.asarray([[1, 2], [3, 4]], dtype=kind))


def test_asarray_copies_where_it_must():
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    copy = xp.asarray(x, copy=True)
    copy[0] = 5
    assert x.tolist() == [1.0, 2.0] and xp.asarray(x, dtype=xp.float64).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)
    shared = np.ones(2)
    xp.asarray(shared)[0] = 3
    assert shared.tolist() == [3.0, 1.0]
    assert xp.asarray(buffers.array("d", [1.0, 2.0]), dtype=xp.float64).tolist() == [1.0, 2.0]


def test_asarray_keeps_the_gradient():
    x = fl.ones(2, requires_grad=True)
    (xp.asarray(x * 2, dtype=xp.float64) * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_from_dlpack():
    source = np.arange(6.0).reshape(2, 3)
    shared = xp.from_dlpack(source)
    source[0, 0] = 9
    assert_same(shared, source)
    copy = xp.from_dlpack(source, copy=True, device="cpu")
    source[0, 0] = 7
    assert copy[0, 0].item() == 9 and np.from_dlpack(xp.ones((2, 2))).tolist() == [[1, 1], [1, 1]]


def test_ranges_have_the_type_of_their_arguments():
    """Also those without elements."""
    for arguments in ((15, -5.61, 1), (0, -1.5), (2.5, -1), (1, -3, 1.0)):
        assert xp.arange(*arguments).dtype == xp.float32
    assert xp.arange(3, -1).dtype == xp.int64


def test_ranges_of_uint64_are_whole():
    for start, stop, step in ((2**63 + 1, 2**63 + 4, 1), (2**64 - 1, 2**64 - 8, -3), (2**63 - 1, 2**63 + 2, 1), (0, 2**64 - 1, 2**62), (7, 7, 1)):
        found = xp.arange(start, stop, step, dtype=xp.uint64)
        assert found.dtype == xp.uint64 and found.tolist() == list(range(start, stop, step))
