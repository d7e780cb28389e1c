"""Python's operators against NumPy: both sides, in place, numbers of every kind."""

import operator

import numpy as np
import pytest

import flambeau as fl

FLOATS = np.array([[-1.5, 2.0, 3.25], [0.5, -4.0, 7.0]], np.float32)
INTS = np.array([[-7, 2, 3], [5, -4, 9]], np.int64)

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]
BITWISE = [operator.and_, operator.or_, operator.xor]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.ifloordiv, operator.imod]


def tensor(array):
    return fl.tensor(array.tolist(), dtype=str(array.dtype))


def same(found, expected):
    np.testing.assert_allclose(np.array(found.tolist()), expected, rtol=1e-6)


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
@pytest.mark.parametrize("array", [FLOATS, INTS], ids=["float", "int"])
@pytest.mark.parametrize("number", [3, 2.5, -2, np.float32(1.5), np.int64(4)], ids=str)
def test_with_numbers_on_either_side(op, array, number):
    same(op(tensor(array), number), op(array, number))
    if not isinstance(number, np.generic):
        same(op(number, tensor(array)), op(number, array))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.__name__)
def test_with_tensors(op):
    row = np.array([2.0, -3.0, 0.5], np.float32)
    same(op(tensor(FLOATS), tensor(row)), op(FLOATS, row))
    same(op(tensor(INTS), tensor(row)), op(INTS.astype(np.float32), row))


@pytest.mark.parametrize("op", BITWISE, ids=lambda op: op.__name__)
def test_bitwise(op):
    same(op(tensor(INTS), 6), op(INTS, 6))
    same(op(6, tensor(INTS)), op(6, INTS))
    mask = INTS > 2
    same(op(tensor(INTS) > 2, tensor(INTS) < 6), op(mask, INTS < 6))


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.__name__)
def test_in_place_keeps_the_object(op):
    x, expected = tensor(FLOATS), FLOATS.copy()
    assert op(x, 3) is x
    op(expected, 3)
    same(x, expected)
    assert op(x, tensor(np.full(3, 2.0, np.float32))) is x
    op(expected, 2)
    same(x, expected)


def test_powers_products_and_signs():
    x = tensor(np.abs(FLOATS))
    same(x**2, np.abs(FLOATS) ** 2)
    same(2**x, 2.0 ** np.abs(FLOATS))
    same(x**x, np.abs(FLOATS) ** np.abs(FLOATS))
    same(-tensor(FLOATS), -FLOATS)
    same(+tensor(FLOATS), FLOATS)
    same(abs(tensor(FLOATS)), np.abs(FLOATS))
    same(~tensor(INTS), ~INTS)
    same(tensor(FLOATS) @ tensor(FLOATS.T), FLOATS @ FLOATS.T)
    x **= 2
    same(x, np.abs(FLOATS) ** 2)


def test_others_may_know_an_answer():
    class Other:
        def __radd__(self, tensor):
            return "added"

        def __eq__(self, tensor):
            return "equal"

    assert fl.ones(1) + Other() == "added"
    assert (fl.ones(1) == Other()) == "equal"
    assert (fl.ones(1) == None) is False  # noqa: E711
    assert (fl.ones(1) != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        fl.ones(1) @ 2
    with pytest.raises(TypeError):
        ~fl.ones(1)
    with pytest.raises(NotImplementedError):
        +fl.tensor(True)
    with pytest.raises(TypeError):
        x = fl.ones(1)
        x += "text"


def test_a_result_that_is_the_input_and_of_other_sizes():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    x = fl.tensor(a)
    assert fl.mm(x, fl.tensor(b), out=x) is x
    np.testing.assert_allclose(x.numpy(), a @ b, rtol=1e-12)
    y, index = fl.tensor([3.0, 1.0, 2.0]), fl.tensor(0)
    fl.kthvalue(y, 2, out=(y, index))
    assert y.tolist() == 2.0 and index.item() == 2
