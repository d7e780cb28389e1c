"""Elementwise functions of the Array API: types, shapes and values, against NumPy."""

import numpy as np
import pytest

from array_api_samples import ALL, BOOLEAN, COMPLEX, FLOATING, INTEGER, NUMERIC, REAL, SIGNED, Draw, array, assert_same, dtype, kind
from flambeau import array_api as xp

ROUNDS = 12
UNARY = {
    "abs": NUMERIC,
    "acos": FLOATING,
    "acosh": FLOATING,
    "asin": FLOATING,
    "asinh": FLOATING,
    "atan": FLOATING,
    "atanh": FLOATING,
    "bitwise_invert": BOOLEAN + INTEGER,
    "ceil": INTEGER + REAL,
    "conj": NUMERIC,
    "cos": FLOATING,
    "cosh": FLOATING,
    "exp": FLOATING,
    "expm1": FLOATING,
    "floor": INTEGER + REAL,
    "imag": COMPLEX,
    "isfinite": NUMERIC,
    "isinf": NUMERIC,
    "isnan": NUMERIC,
    "log": FLOATING,
    "log10": FLOATING,
    "log1p": FLOATING,
    "log2": FLOATING,
    "logical_not": BOOLEAN,
    "negative": NUMERIC,
    "positive": NUMERIC,
    "real": NUMERIC,
    "reciprocal": FLOATING,
    "round": NUMERIC,
    "sign": NUMERIC,
    "signbit": REAL,
    "sin": FLOATING,
    "sinh": FLOATING,
    "sqrt": FLOATING,
    "square": NUMERIC,
    "tan": FLOATING,
    "tanh": FLOATING,
    "trunc": INTEGER + REAL,
}
BINARY = {
    "add": NUMERIC,
    "atan2": REAL,
    "bitwise_and": BOOLEAN + INTEGER,
    "bitwise_left_shift": INTEGER,
    "bitwise_or": BOOLEAN + INTEGER,
    "bitwise_right_shift": INTEGER,
    "bitwise_xor": BOOLEAN + INTEGER,
    "copysign": REAL,
    "divide": FLOATING,
    "equal": ALL,
    "floor_divide": INTEGER + REAL,
    "greater": INTEGER + REAL,
    "greater_equal": INTEGER + REAL,
    "hypot": REAL,
    "less": INTEGER + REAL,
    "less_equal": INTEGER + REAL,
    "logaddexp": REAL,
    "logical_and": BOOLEAN,
    "logical_or": BOOLEAN,
    "logical_xor": BOOLEAN,
    "maximum": INTEGER + REAL,
    "minimum": INTEGER + REAL,
    "multiply": NUMERIC,
    "nextafter": REAL,
    "not_equal": ALL,
    "pow": INTEGER + REAL,
    "remainder": INTEGER + REAL,
    "subtract": NUMERIC,
}
# The operator of arrays that a function computes.
OPERATORS = {
    "add": "+",
    "bitwise_and": "&",
    "bitwise_left_shift": "<<",
    "bitwise_or": "|",
    "bitwise_right_shift": ">>",
    "bitwise_xor": "^",
    "divide": "/",
    "equal": "==",
    "floor_divide": "//",
    "greater": ">",
    "greater_equal": ">=",
    "less": "<",
    "less_equal": "<=",
    "multiply": "*",
    "not_equal": "!=",
    "pow": "**",
    "remainder": "%",
    "subtract": "-",
}
NAMES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh", "atan2": "arctan2"}


def numpy_function(name):
    return getattr(np, NAMES.get(name, name))


@pytest.fixture(autouse=True)
def quiet():
    """NumPy warns of infinities and NaN."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    draw = Draw(name)
    for kind_name in UNARY[name]:
        for _ in range(ROUNDS):
            values, x = draw.pair(kind_name, draw.shape(), special=name != "sign" and kind_name in REAL)
            expected = numpy_function(name)(values)
            assert_same(getattr(xp, name)(x), expected, note=(name, kind_name, values))


def limits(name, kind_name):
    """The second operand of a function on integers: not 0 as a divisor, small as an exponent or a shift."""
    if kind_name not in INTEGER:
        return {}
    small = {"pow": (0, 3), "bitwise_left_shift": (0, 7), "bitwise_right_shift": (0, 7), "floor_divide": (1, None), "remainder": (1, None)}
    low, high = small.get(name, (None, None))
    return {"low": low, "high": high}


def common(first, second):
    return str(np.result_type(np.dtype(first), np.dtype(second)))


def expected_of(name, left, right):
    """NumPy's value; arrays without dimensions are promoted as others."""
    target = common(left.dtype, right.dtype)
    return np.asarray(numpy_function(name)(left.astype(target), right.astype(target)))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    """Two arrays of types that have a common one, and an array and a number."""
    draw = Draw(name)
    for kind_name in BINARY[name]:
        for _ in range(ROUNDS):
            other = draw.partner(kind_name, BINARY[name])
            shapes = draw.shapes()
            special = kind_name in REAL and other in REAL and name not in ("pow", "nextafter")
            left, x1 = draw.pair(kind_name, shapes[0], special=special)
            right, x2 = draw.pair(other, shapes[1], special=special, **limits(name, other))
            if name == "pow" and kind(kind_name) == "floating":
                left = np.abs(left)
                x1 = array(left)
            expected = expected_of(name, left, right)
            assert_same(getattr(xp, name)(x1, x2), expected, note=(name, kind_name, other, left, right))


@pytest.mark.parametrize("name", BINARY)
def test_an_array_and_a_number(name):
    draw = Draw(name)
    for kind_name in BINARY[name]:
        number = True if kind_name == "bool" else 3 if kind_name in INTEGER else 2.5
        values, x = draw.pair(kind_name, (2, 3), low=1, high=3)
        if name in ("pow", "nextafter") and kind_name in REAL:
            values = np.abs(values)
            x = array(values)
        array_of_number = np.asarray(number, dtype=kind_name)
        assert_same(getattr(xp, name)(x, number), expected_of(name, values, array_of_number), note=(name, kind_name))
        assert_same(getattr(xp, name)(number, x), expected_of(name, array_of_number, values), note=(name, kind_name))


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_arrays(name):
    """Arrays of one type, and a number on either side; the operators of integers of mixed signs are PyTorch's."""
    draw = Draw(name)
    symbol = OPERATORS[name]
    for kind_name in [one for one in BINARY[name] if one in BOOLEAN + SIGNED + ["uint8"] + FLOATING]:
        shapes = draw.shapes()
        left, x1 = draw.pair(kind_name, shapes[0])
        right, x2 = draw.pair(kind_name, shapes[1], **limits(name, kind_name))
        if name == "pow" and kind_name in REAL:
            left = np.abs(left)
            x1 = array(left)
        assert_same(eval(f"x1 {symbol} x2"), expected_of(name, left, right), note=(name, kind_name))
        if name in ("equal", "not_equal") or kind_name != "bool":
            number = True if kind_name == "bool" else 3 if kind_name in INTEGER else 2.5
            assert_same(eval(f"x1 {symbol} number"), expected_of(name, left, np.asarray(number, dtype=kind_name)), note=(name, kind_name))


@pytest.mark.parametrize("kind_name", INTEGER + REAL)
def test_clip(kind_name):
    draw = Draw(kind_name)
    bounds = (1, 3) if kind_name in INTEGER else (-1.0, 2.0)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind_name, draw.shape(), low=0, high=6, special=kind_name in REAL)
        low, high = draw.choice([None, bounds[0]]), draw.choice([None, bounds[1]])
        expected = values if low is None and high is None else np.clip(values, low, high)
        assert_same(xp.clip(x, low, high), expected, kind_name)
        bottom = draw.numpy(kind_name, values.shape[-1:], low=0, high=2)
        top = (bottom + 2).astype(kind_name)
        assert_same(xp.clip(x, array(bottom), max=array(top)), np.clip(values, bottom, top), kind_name)
    assert xp.clip(x).tolist() == x.tolist() or kind_name in REAL


@pytest.mark.skipif(not hasattr(xp, "uint64"), reason="there are no tensors of uint64")
def test_numbers_beyond_int64():
    """Arithmetic of uint64 where the highest bit is set, against Python's integers."""
    values = [0, 1, 5, 2**63 - 1, 2**63, 2**63 + 7, 2**64 - 2, 2**64 - 1]
    pairs = [(one, other) for one in values for other in values]
    x, y = (xp.asarray([pair[at] for pair in pairs], dtype=xp.uint64) for at in (0, 1))
    for name, expected in (
        ("add", lambda a, b: (a + b) % 2**64),
        ("multiply", lambda a, b: a * b % 2**64),
        ("subtract", lambda a, b: (a - b) % 2**64),
        ("less", lambda a, b: a < b),
        ("greater_equal", lambda a, b: a >= b),
        ("equal", lambda a, b: a == b),
        ("maximum", max),
        ("minimum", min),
        ("bitwise_xor", lambda a, b: a ^ b),
    ):
        assert getattr(xp, name)(x, y).tolist() == [expected(*pair) for pair in pairs], name
    divided = [pair for pair in pairs if pair[1]]
    x, y = (xp.asarray([pair[at] for pair in divided], dtype=xp.uint64) for at in (0, 1))
    assert xp.floor_divide(x, y).tolist() == [one // other for one, other in divided]
    assert xp.remainder(x, y).tolist() == [one % other for one, other in divided]
    for shift in (0, 1, 63):
        assert xp.bitwise_right_shift(x, shift).tolist() == [one >> shift for one, _ in divided]
    x = xp.asarray(values[::-1], dtype=xp.uint64)
    assert xp.sort(x).tolist() == values and xp.argmax(x).item() == 0 and xp.max(x).item() == values[-1]
    assert xp.abs(x).tolist() == xp.positive(x).tolist() == values[::-1] and xp.sign(x).tolist() == [1] * 7 + [0]
    assert xp.unique_values(xp.concat([x, x])).tolist() == values


def test_gradients_flow():
    x = xp.asarray([0.5, 2.0]).requires_grad_()
    xp.sum(xp.multiply(xp.exp(x), xp.asarray([1.0, 3.0]))).backward()
    np.testing.assert_allclose(x.grad.tolist(), np.exp([0.5, 2.0]) * [1, 3], rtol=1e-6)


def test_gradients_of_functions_that_are_not_one_operator():
    x = xp.asarray([0.0, -2.0, 4.0, 1.5], dtype=xp.float64).requires_grad_()
    for call, expected in (
        (lambda: xp.remainder(x, 2.0), [1, 1, 1, 1]),
        (lambda: xp.remainder(x, -2.0), [1, 1, 1, 1]),
        (lambda: xp.sign(x), [0, 0, 0, 0]),
        (lambda: xp.clip(x, -3.0, 3.0), [1, 1, 0, 1]),
        (lambda: xp.where(x > 0, x, xp.square(x)), [0, -4, 1, 1]),
        (lambda: xp.unique_values(x), [1, 1, 1, 1]),
        (lambda: xp.var(x) * 4, [-1.75, -5.75, 6.25, 1.25]),
    ):
        x.grad = None
        xp.sum(call()).backward()
        np.testing.assert_allclose(x.grad.tolist(), expected, atol=1e-12)


def test_refusals():
    with pytest.raises(TypeError, match="result_type: expected arrays, dtypes and numbers but got str"):
        xp.add(xp.ones(2), "1")
    with pytest.raises(ValueError, match="at least one array"):
        xp.add(1, 2)
    for wrong in ((xp.ones(2), xp.ones(3)), (xp.ones((2, 2)), xp.ones((3, 2)))):
        with pytest.raises(RuntimeError):
            xp.add(*wrong)
    with pytest.raises(TypeError):
        xp.abs(x=xp.ones(2))
    assert dtype("bool") == xp.equal(xp.ones(2), 1).dtype


def test_shifts_of_uint64_by_all_bits():
    x = xp.asarray([2**64 - 1, 2**63, 5], dtype=xp.uint64)
    for shift in (0, 1, 63, 64, 65, 2**63, 2**64 - 1):
        found = xp.bitwise_right_shift(x, xp.asarray([shift] * 3, dtype=xp.uint64))
        assert found.tolist() == [number >> shift for number in x.tolist()]
