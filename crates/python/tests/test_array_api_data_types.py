"""Data types of the Array API: promotion, conversion, limits, kinds, and what the namespace says of itself."""

import itertools

import numpy as np
import pytest

import flambeau as fl
from array_api_samples import ALL, BOOLEAN, COMPLEX, FLOATING, INTEGER, NUMERIC, REAL, SIGNED, UNSIGNED, Draw, assert_same, dtype, kind
from flambeau import array_api as xp

PAIRS = [(one, other) for one, other in itertools.product(ALL, ALL) if kind(one) == kind(other)]


def without_common_type(one, other):
    return "uint64" in (one, other) and bool({one, other} & set(SIGNED))


@pytest.mark.parametrize("one, other", PAIRS)
def test_promotion(one, other):
    """The table of the standard is NumPy's, except where NumPy converts integers to floating point numbers."""
    if without_common_type(one, other):
        with pytest.raises(TypeError, match="result_type: expected types with a common one"):
            xp.result_type(dtype(one), dtype(other))
        return
    expected = dtype(str(np.promote_types(one, other)))
    assert xp.result_type(dtype(one), dtype(other)) == expected
    assert xp.result_type(xp.ones(2, dtype=dtype(one)), xp.ones((), dtype=dtype(other))) == expected
    assert xp.can_cast(dtype(one), dtype(other)) == (expected == dtype(other))


def test_promotion_of_several_and_of_numbers():
    assert xp.result_type(xp.int8, xp.ones(1, dtype=xp.int32), xp.int16) == xp.int32
    assert xp.result_type(xp.float32, 1) == xp.result_type(xp.float32, 2.5) == xp.float32
    assert xp.result_type(xp.float32, 1j) == xp.complex64 and xp.result_type(xp.float64, 1j) == xp.complex128
    assert xp.result_type(xp.int8, 1000) == xp.int8 and xp.result_type(xp.bool, True) == xp.bool
    assert xp.result_type(1, xp.complex64, 2.5) == xp.complex64
    with pytest.raises(ValueError):
        xp.result_type(1, 2)


@pytest.mark.parametrize("one", ALL)
def test_astype(one):
    draw = Draw(one)
    values, x = draw.pair(one, (2, 3), low=0, high=100)
    for other in ALL:
        if one in COMPLEX and other not in COMPLEX:
            with pytest.raises(TypeError, match="use real or imag"):
                xp.astype(x, dtype(other))
        elif other == "bool" or not (one in FLOATING and other in UNSIGNED):
            assert_same(xp.astype(x, dtype(other)), values.astype(other), note=(one, other))
    assert xp.astype(x, dtype(one), copy=False) is x and xp.astype(x, dtype(one)) is not x
    assert xp.astype(x, dtype(one), device="cpu").tolist() == x.tolist()


def test_limits():
    for name in REAL:
        found, expected = xp.finfo(dtype(name)), np.finfo(name)
        assert (found.bits, found.eps, found.max, found.min, found.smallest_normal) == (
            expected.bits,
            expected.eps,
            expected.max,
            expected.min,
            expected.smallest_normal,
        )
        assert found.dtype == dtype(name) and xp.finfo(xp.ones(1, dtype=dtype(name))) == found
    assert xp.finfo(xp.complex128) == xp.finfo(xp.float64)
    for name in INTEGER:
        found, expected = xp.iinfo(dtype(name)), np.iinfo(name)
        assert (found.bits, found.max, found.min, found.dtype) == (expected.bits, expected.max, expected.min, dtype(name))
        assert xp.iinfo(xp.ones(1, dtype=dtype(name))) == found
    for function, wrong in ((xp.finfo, xp.int8), (xp.iinfo, xp.float32)):
        with pytest.raises(TypeError):
            function(wrong)


KINDS = {
    "bool": BOOLEAN,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGER,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": NUMERIC,
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name):
    for one in ALL:
        assert xp.isdtype(dtype(one), name) == (one in KINDS[name])
        assert xp.isdtype(dtype(one), (name, dtype(one))) and xp.isdtype(dtype(one), dtype(one))
    assert set(xp.__array_namespace_info__().dtypes(kind=name)) == set(KINDS[name])
    with pytest.raises(ValueError, match="isdtype"):
        xp.isdtype(xp.int8, "integer")


def test_what_the_namespace_says():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert xp.zeros((1,) * 64).ndim == 64
    with pytest.raises(RuntimeError):
        xp.zeros((1,) * 65)
    assert info.default_device() == xp.zeros(1).device and info.default_device() in info.devices()
    defaults = info.default_dtypes(device="cpu")
    assert defaults["real floating"] == xp.zeros(1).dtype and defaults["complex floating"] == xp.asarray(1j).dtype
    assert defaults["integral"] == xp.asarray(1).dtype and defaults["indexing"] == xp.argmax(xp.ones(2)).dtype
    assert set(info.dtypes()) == set(ALL) and set(info.dtypes(kind=("bool", "integral"))) == set(BOOLEAN + INTEGER)
    with pytest.raises(ValueError, match="dtypes: expected kind"):
        info.dtypes(kind="integer")


def test_the_default_type_is_that_of_the_library():
    fl.set_default_dtype(fl.float64)
    try:
        assert xp.ones(1).dtype == xp.float64 and xp.asarray(1j).dtype == xp.complex128
        assert xp.__array_namespace_info__().default_dtypes()["complex floating"] == xp.complex128
        assert xp.linspace(0, 1j, 2).dtype == xp.complex128
    finally:
        fl.set_default_dtype(fl.float32)


def test_dtypes_are_values():
    assert xp.float32 == fl.float32 and xp.float32 != xp.float64 and hash(xp.int8) == hash(fl.int8)
    assert not xp.float32 == "float32"
