"""The extension `fft` of the Array API, against NumPy."""

import numpy as np
import pytest

from array_api_samples import COMPLEX, FLOATING, REAL, Draw, array, assert_same, dtype
from flambeau import array_api as xp

NORMS = ["backward", "ortho", "forward"]
PARTS = {"complex64": "float32", "complex128": "float64", "float32": "float32", "float64": "float64"}
PAIRS = {"complex64": "complex64", "complex128": "complex128", "float32": "complex64", "float64": "complex128"}
# The types of arguments, and whether results are real.
ALONG_ONE = {
    "fft": (FLOATING, False),
    "ifft": (FLOATING, False),
    "rfft": (REAL, False),
    "irfft": (COMPLEX, True),
    "hfft": (COMPLEX, True),
    "ihfft": (REAL, False),
}
ALONG_SEVERAL = {"fftn": (FLOATING, False), "ifftn": (FLOATING, False), "rfftn": (REAL, False), "irfftn": (COMPLEX, True)}


def result_kind(kind, is_real):
    return PARTS[kind] if is_real else PAIRS[kind]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ALONG_ONE)
def test_along_an_axis(name, norm):
    draw = Draw(name + norm)
    kinds, is_real = ALONG_ONE[name]
    for kind in kinds:
        for _ in range(6):
            values, x = draw.pair(kind, draw.shape(smallest=2, fewest=1))
            axis, size = draw.axis(values.ndim), draw.choice([None, 2, 5])
            expected = getattr(np.fft, name)(values, size, axis, norm)
            assert_same(getattr(xp.fft, name)(x, n=size, axis=axis, norm=norm), expected, result_kind(kind, is_real), note=(kind, size, axis))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ALONG_SEVERAL)
def test_along_several_axes(name, norm):
    draw = Draw(name + norm)
    kinds, is_real = ALONG_SEVERAL[name]
    for kind in kinds:
        for _ in range(6):
            values, x = draw.pair(kind, draw.shape(smallest=2, fewest=2))
            axes = draw.choice([None, (0, -1), (1,), (-1, 0)])
            sizes = None if axes is None else draw.choice([None, tuple(draw.choice([2, 3, -1]) for _ in axes)])
            given = sizes and [values.shape[axis] if size == -1 else size for size, axis in zip(sizes, axes)]
            if name == "irfftn" and given and sizes[-1] == -1:
                # All of the input is used, as where no size is given; NumPy uses half of it.
                given[-1] = 2 * (values.shape[axes[-1]] - 1)
            expected = getattr(np.fft, name)(values, given, axes, norm)
            found = getattr(xp.fft, name)(x, s=sizes, axes=axes, norm=norm)
            assert_same(found, expected, result_kind(kind, is_real), note=(kind, values.shape, sizes, axes))
    with pytest.raises(ValueError, match=f"{name}: expected axes"):
        getattr(xp.fft, name)(x, s=(2, 2))


@pytest.mark.parametrize("kind", REAL)
def test_frequencies(kind):
    for count in (1, 4, 5):
        for distance in (1.0, 0.25):
            assert_same(xp.fft.fftfreq(count, d=distance, dtype=dtype(kind)), np.fft.fftfreq(count, distance).astype(kind))
            assert_same(xp.fft.rfftfreq(count, d=distance, dtype=dtype(kind), device="cpu"), np.fft.rfftfreq(count, distance).astype(kind))
    assert xp.fft.fftfreq(3).dtype == xp.float32


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name):
    draw = Draw(name)
    for kind in FLOATING:
        for axes in (None, 0, -1, (0, 1), (1,)):
            values, x = draw.pair(kind, (3, 4))
            assert_same(getattr(xp.fft, name)(x, axes=axes), getattr(np.fft, name)(values, axes))


def test_the_inverse_and_the_gradient():
    x = array(np.asarray([1.0, -2.0, 0.5, 3.0])).requires_grad_()
    back = xp.real(xp.fft.ifft(xp.fft.fft(x)))
    xp.sum(xp.multiply(back, xp.asarray([1.0, 2.0, 3.0, 4.0]))).backward()
    np.testing.assert_allclose(back.tolist(), x.tolist(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.tolist(), [1, 2, 3, 4], rtol=1e-6)
