"""Arrays for the tests of the Array API, the same in NumPy and here, and the comparison of results."""

import math
import random
import zlib

import numpy as np

from flambeau import array_api as xp

BOOLEAN = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = [name for name in ("uint8", "uint16", "uint32", "uint64") if hasattr(xp, name)]
INTEGER = SIGNED + UNSIGNED
REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
FLOATING = REAL + COMPLEX
NUMERIC = INTEGER + FLOATING
ALL = BOOLEAN + NUMERIC
TOLERANCE = {"float32": 2e-5, "complex64": 1e-4, "float64": 1e-11, "complex128": 1e-11}
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 0.5, -2.5, 1e-30]


def dtype(name):
    return getattr(xp, name)


def kind(name):
    """Types of a kind have a common one, and types of two kinds need not."""
    return "bool" if name == "bool" else "integer" if name in INTEGER else "floating"


class Draw:
    """Random shapes, axes and arrays, the same for a seed."""

    def __init__(self, seed):
        number = zlib.crc32(str(seed).encode())
        self.random = random.Random(number)
        self.numbers = np.random.default_rng(number)

    def choice(self, options):
        return self.random.choice(list(options))

    def shape(self, most=3, smallest=0, fewest=0):
        return tuple(self.random.randint(smallest, 4) for _ in range(self.random.randint(fewest, most)))

    def shapes(self):
        """Two shapes that broadcast."""
        full = self.shape()
        other = tuple(1 if self.random.random() < 0.3 else size for size in full)
        other = other[self.random.randint(0, len(full)) :] if self.random.random() < 0.3 else other
        return (full, other) if self.random.random() < 0.5 else (other, full)

    def axis(self, dims):
        return self.random.randint(-dims, dims - 1)

    def axes(self, dims):
        """None, an axis, or several, of which some are counted from the last one."""
        several = self.random.sample(range(dims), self.random.randint(0, dims))
        options = [None, tuple(axis - dims if self.random.random() < 0.3 else axis for axis in several)]
        return self.choice(options + [self.axis(dims)] * 2 if dims else options)

    def partner(self, name, among=ALL):
        """A type that has a common one with another: not a signed one with uint64."""
        fits = [other for other in among if kind(other) == kind(name)]
        return self.choice(other for other in fits if not ({name, other} & {"uint64"} and {name, other} & set(SIGNED)))

    def real(self, shape, special=False):
        values = self.numbers.normal(size=shape) * 3
        return np.where(self.numbers.random(shape) < 0.4, self.numbers.choice(SPECIAL, size=shape), values) if special else values

    def numpy(self, name, shape, low=None, high=None, special=False):
        if name == "bool":
            return np.asarray(self.numbers.random(shape) < 0.5)
        if name in INTEGER:
            limits = np.iinfo(name)
            low, high = max(limits.min, -(10**18) if low is None else low), min(limits.max, 10**18 if high is None else high)
            return np.asarray(self.numbers.integers(low, high, endpoint=True, size=shape), dtype=name)
        values = self.real(shape, special)
        if name in COMPLEX:
            pairs = np.empty(shape, "complex128")
            pairs.real, pairs.imag = values, self.real(shape, special)
            values = pairs
        return np.asarray(values).astype(name)

    def pair(self, name, shape, **limits):
        """An array of NumPy's and the same one here."""
        values = self.numpy(name, shape, **limits)
        return values, array(values)


def array(values):
    values = np.asarray(values)
    return xp.reshape(xp.asarray(values.tolist(), dtype=dtype(str(values.dtype))), values.shape)


def name_of(found):
    return str(found.dtype).split(".")[-1]


def assert_same(found, expected, name=None, note=None):
    """The type, the shape and the values of an array, or of each of several."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected), note
        for one, other in zip(found, expected):
            assert_same(one, other, name, note)
        return
    expected = np.asarray(expected)
    name = name or str(expected.dtype)
    assert name_of(found) == name, (name_of(found), name, note)
    assert tuple(found.shape) == expected.shape, (tuple(found.shape), expected.shape, note)
    values = np.asarray(found.tolist(), dtype=name).reshape(expected.shape)
    if name in TOLERANCE:
        tolerance = TOLERANCE[name]
        for part in (np.real, np.imag) if name in COMPLEX else (np.asarray,):
            np.testing.assert_allclose(part(values), part(expected.astype(name)), rtol=tolerance, atol=tolerance, err_msg=str(note))
    else:
        np.testing.assert_array_equal(values, expected, err_msg=str(note))
