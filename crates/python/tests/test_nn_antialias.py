"""`interpolate` with `antialias` beside a loop over pixels in NumPy's float64, and bytes beside PyTorch's results."""

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F

RNG = np.random.default_rng(5)


def sinc(x):
    return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x)


def cubic(x):
    x = abs(x)
    return 1.5 * x**3 - 2.5 * x**2 + 1 if x < 1 else (-0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0)


FILTERS = {
    "bilinear": (1, lambda x: max(1 - abs(x), 0.0)),
    "bicubic": (2, cubic),
    "lanczos": (3, lambda x: sinc(x) * sinc(x / 3) if abs(x) < 3 else 0.0),
}


def matrix(before, after, scale, mode):
    """The weights of each pixel of the result, for the pixels whose centers are inside of the filter."""
    support, kernel = FILTERS[mode]
    found = np.zeros((after, before))
    for i in range(after):
        center = (i + 0.5) * scale
        for j in range(before):
            if abs(j + 0.5 - center) < support * max(scale, 1):
                found[i, j] = kernel((j + 0.5 - center) / max(scale, 1))
    return found / found.sum(1, keepdims=True)


def expected(x, scales, sizes, mode):
    rows, columns = (matrix(n, size, scale, mode) for n, size, scale in zip(x.shape[2:], sizes, scales))
    return np.einsum("ih,nchw,jw->ncij", rows, x, columns)


@pytest.mark.parametrize("mode", FILTERS)
@pytest.mark.parametrize("sizes", [(5, 9), (13, 17), (30, 7), (1, 1), (26, 41)])
def test_pixels_are_weighted_means(mode, sizes):
    x = RNG.normal(size=(2, 3, 13, 17))
    reference = expected(x, [13 / sizes[0], 17 / sizes[1]], sizes, mode)
    for dtype, tolerance in ((fl.float64, 1e-13), (fl.float32, 2e-6), (fl.float16, 4e-3)):
        found = F.interpolate(fl.tensor(x).to(dtype), sizes, mode=mode, antialias=True)
        assert found.dtype is dtype
        np.testing.assert_allclose(found.double().tolist(), reference, rtol=0, atol=tolerance)


def test_corners_and_factors():
    x = RNG.normal(size=(1, 2, 9, 12))
    found = F.interpolate(fl.tensor(x), (4, 5), mode="bilinear", antialias=True, align_corners=True)
    np.testing.assert_allclose(found.tolist(), expected(x, [8 / 3, 11 / 4], (4, 5), "bilinear"), atol=1e-13)
    found = F.interpolate(fl.tensor(x), scale_factor=(0.4, 1.7), mode="bicubic", antialias=True)
    np.testing.assert_allclose(found.tolist(), expected(x, [1 / 0.4, 1 / 1.7], (3, 20), "bicubic"), atol=1e-13)


@pytest.mark.parametrize("mode", FILTERS)
def test_gradients(mode):
    x = fl.tensor(RNG.normal(size=(1, 2, 6, 5)), requires_grad=True)
    assert fl.autograd.gradcheck(lambda x: F.interpolate(x, (3, 7), mode=mode, antialias=True), (x,))


BYTES = {
    ("bilinear", (2, 3)): [[35, 114, 193], [41, 120, 199]],
    ("bilinear", (6, 4)): [
        [19, 77, 145, 203], [21, 79, 147, 205], [24, 82, 150, 208], [26, 84, 152, 210], [29, 87, 155, 213], [31, 89, 157, 215],
    ],
    ("bicubic", (2, 3)): [[30, 114, 198], [36, 120, 204]],
    ("lanczos", (2, 3)): [[26, 113, 200], [34, 121, 208]],
    ("lanczos", (6, 4)): [
        [14, 77, 145, 208], [16, 79, 147, 210], [19, 82, 150, 213], [21, 84, 152, 215], [24, 87, 155, 218], [26, 89, 157, 220],
    ],
}


@pytest.mark.parametrize("mode, sizes", BYTES)
def test_bytes_are_pytorchs(mode, sizes):
    x = (fl.arange(35).reshape(1, 1, 5, 7) * 37 % 256).to(fl.uint8)
    found = F.interpolate(x, sizes, mode=mode, antialias=True)
    assert found.dtype is fl.uint8 and found[0, 0].tolist() == BYTES[mode, sizes]


def test_what_is_refused():
    x = fl.ones(1, 1, 4, 4)
    for call, error in (
        (lambda: F.interpolate(x, 2, mode="nearest", antialias=True), ValueError),
        (lambda: F.interpolate(x[0], 2, mode="bilinear", antialias=True), ValueError),
        (lambda: F.interpolate(x, 2, mode="lanczos"), ValueError),
        (lambda: F.interpolate(x, 2, mode="lanczos", antialias=True, align_corners=True), ValueError),
        (lambda: F.interpolate(x, 0, mode="bilinear", antialias=True), RuntimeError),
        (lambda: F.interpolate(x.int(), 2, mode="bilinear", antialias=True), NotImplementedError),
    ):
        with pytest.raises(error):
            call()
