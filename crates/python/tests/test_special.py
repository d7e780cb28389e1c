"""Special functions from Python: the module `special`, other names, and shifts as operators."""

import math

import pytest

import flambeau as fl


def test_the_module_has_functions_of_its_own_and_of_the_package():
    x = fl.tensor([0.25, 0.5], dtype=fl.float64)
    assert fl.special.ndtri(x)[1].item() == 0.0
    assert fl.special.gammaln(fl.tensor([3.0])).item() == pytest.approx(math.log(2.0))
    assert fl.special.expit(fl.tensor(0.0)).item() == 0.5
    assert fl.special.zeta(2, fl.tensor([1.0])).item() == pytest.approx(math.pi**2 / 6)
    assert fl.special.xlog1py(0, fl.tensor([-1.0])).item() == 0.0
    out = fl.empty(2, dtype=fl.float64)
    assert fl.special.entr(x, out=out) is out


def test_functions_have_a_second_name():
    x = fl.tensor([1.5])
    for name in ("arccosh", "arcsinh"):
        assert fl.equal(getattr(fl, name)(x), getattr(x, name[:1] + name[3:])())
    assert fl.equal(fl.arctanh(x / 2), (x / 2).atanh())


def test_shifts_are_operators():
    x = fl.tensor([1, 2, -8])
    assert (x << 2).tolist() == [4, 8, -32]
    assert (x >> fl.tensor([0, 1, 2])).tolist() == [1, 1, -2]
    same = x
    x <<= 1
    assert x is same and x.tolist() == [2, 4, -16]
    x >>= 1
    assert x is same and x.tolist() == [1, 2, -8]
    assert (3 << x[:2]).tolist() == [6, 12] and (-9 >> x[:2]).tolist() == [-5, -3]


def test_results_of_two_parts_have_names():
    split = fl.frexp(fl.tensor([10.0, 0.0]))
    assert split.mantissa.tolist() == [0.625, 0.0] and split.exponent.tolist() == [4, 0]
    assert split.exponent.dtype == fl.int32


def test_activations_in_pieces():
    x = fl.tensor([-2.0, 0.25, 4.0], requires_grad=True)
    fl.hardshrink(x, 0.5).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0]
    assert fl.prelu(fl.tensor([[-1.0, -1.0]]), fl.tensor([0.5, 0.25])).tolist() == [[-0.5, -0.25]]
    assert fl.celu(fl.tensor([2.0])).item() == 2.0
    assert (fl.rrelu(fl.full((100,), -1.0), 0.25, 0.75, training=True) <= -0.25).all().item()
