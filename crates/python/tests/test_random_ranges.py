"""Random numbers lie where their distribution has them, in every type: draws are wide, and rounded last."""

import math

import pytest

import flambeau as fl

FLOATS = [fl.float16, fl.bfloat16, fl.float32, fl.float64]
MANY = 200_000


def drawn(dtype, fill):
    fl.manual_seed(3)
    made = fl.empty(MANY, dtype=dtype)
    fill(made)
    return made.double()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rate", [1e-3, 1.0, 300.0])
def test_exponentials_are_positive_and_finite(dtype, rate):
    x = drawn(dtype, lambda t: t.exponential_(rate))
    assert x.min().item() > 0 and math.isfinite(x.max().item())
    if dtype not in (fl.float16, fl.bfloat16) or rate == 1.0:
        assert abs(x.mean().item() * rate - 1) < 0.02
        # The tail is as long as that of the distribution: one of as many lies beyond.
        assert x.max().item() * rate > 0.7 * math.log(MANY)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gumbel_softmax_has_no_nan(dtype):
    fl.manual_seed(0)
    rows = fl.nn.functional.gumbel_softmax(fl.zeros(20_000, 4, dtype=dtype))
    assert not rows.isnan().any().item()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sigma", [1.0, 1000.0])
def test_cauchy_is_finite(dtype, sigma):
    x = drawn(dtype, lambda t: t.cauchy_(0.0, sigma))
    assert math.isfinite(x.abs().max().item())
    assert abs((x.abs() < sigma).double().mean().item() - 0.5) < 0.02


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("low, high", [(0.0, 1.0), (-3.0, -2.5), (1000.0, 1001.0), (0.1, 0.3), (-1e4, 1e4)])
def test_uniform_leaves_out_the_end(dtype, low, high):
    x = drawn(dtype, lambda t: t.uniform_(low, high))
    first, end = (fl.tensor(v, dtype=dtype).double().item() for v in (low, high))
    assert x.min().item() >= first and (x.max().item() < end or first == end)
    r = drawn(dtype, lambda t: t.copy_(fl.rand(MANY, dtype=dtype)))
    assert r.min().item() >= 0 and r.max().item() < 1


@pytest.mark.parametrize("dtype", [*FLOATS, fl.uint8, fl.int8, fl.int16, fl.int32, fl.int64])
@pytest.mark.parametrize("p", [0.5, 1e-2, 1e-6])
def test_geometric_counts_from_1(dtype, p):
    x = drawn(dtype, lambda t: t.geometric_(p))
    assert x.min().item() >= 1 and math.isfinite(x.max().item())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("low, high", [(0, 2049), (-5000, 4097), (0, 513), (7, 60000), (-3, 4), (-60001, -1)])
def test_whole_numbers_stay_inside(dtype, low, high):
    x = drawn(dtype, lambda t: t.random_(low, high))
    assert x.min().item() >= low and x.max().item() < high
    assert (x == x.floor()).all().item()


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_is_finite(dtype):
    for fill in (lambda t: t.normal_(), lambda t: t.log_normal_()):
        assert math.isfinite(drawn(dtype, fill).abs().max().item())
    assert drawn(dtype, lambda t: t.log_normal_()).min().item() > 0


@pytest.mark.parametrize("dtype", [*FLOATS, fl.bool, fl.int64])
def test_certain_draws(dtype):
    assert drawn(dtype, lambda t: t.bernoulli_(1.0)).min().item() == 1
    assert drawn(dtype, lambda t: t.bernoulli_(0.0)).max().item() == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_names_no_weight_of_0(dtype, replacement):
    fl.manual_seed(1)
    weights = fl.tensor([0, 1, 0, 2, 3, 0], dtype=dtype).expand(2000, 6)
    chosen = fl.multinomial(weights, 3, replacement=replacement)
    assert set(chosen.flatten().tolist()) == {1, 3, 4}
