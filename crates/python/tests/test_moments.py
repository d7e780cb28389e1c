"""Mean and variance of numbers that are not finite, or large, at every position, in sizes around the width of a register."""

import math
import random

import pytest

import flambeau as fl


def reference(row):
    """Mean, and variance with Bessel's correction."""
    n, finite = len(row), all(map(math.isfinite, row))
    if any(map(math.isnan, row)) or {math.inf, -math.inf} <= set(row):
        return math.nan, math.nan
    if not finite:
        return sum(x for x in row if math.isinf(x)), math.nan
    mean = math.fsum(x / n for x in row)
    return mean, math.fsum((x - mean) ** 2 for x in row) / (n - 1) if n > 1 else math.nan


def same(got, expected, tolerance):
    return (math.isnan(got) and math.isnan(expected)) or math.isclose(got, expected, rel_tol=tolerance, abs_tol=tolerance)


def laid_out(draw, rows):
    """The rows in one of several orders of memory, and the dimension along which they lie."""
    match draw.randrange(4):
        case 0:
            return rows, 1
        case 1:
            return rows.t().contiguous(), 0
        case 2:
            return rows.t().contiguous().t(), 1
        case _:
            wide = fl.zeros(rows.shape[0], 2 * rows.shape[1], dtype=rows.dtype)[:, ::2]
            return wide.copy_(rows), 1


@pytest.mark.parametrize("dtype, tolerance", [(fl.float32, 1e-5), (fl.float64, 1e-12), (fl.float16, 4e-3), (fl.bfloat16, 3e-2)])
def test_special_numbers_at_every_position(dtype, tolerance):
    draw = random.Random(5)
    for n in [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 300]:
        for _ in range(4):
            plain = fl.tensor([[draw.uniform(-2, 2) for _ in range(n)] for _ in range(3)], dtype=dtype).tolist()
            for row in plain:
                for _ in range(draw.choice([0, 1, 1, 2])):
                    row[draw.randrange(n)] = draw.choice([math.inf, -math.inf, math.nan])
            rows, dim = laid_out(draw, fl.tensor(plain, dtype=dtype))
            var, mean = fl.var_mean(rows, dim)
            std, mean_too = fl.std_mean(rows, dim)
            alone = rows.mean(dim), rows.var(dim), rows.std(dim)
            for i, row in enumerate(plain):
                expected_mean, expected_var = reference(row)
                for got in (mean, mean_too, alone[0]):
                    assert same(got[i].item(), expected_mean, tolerance), (n, row, got[i].item())
                for got in (var, alone[1]):
                    assert same(got[i].item(), expected_var, 4 * tolerance), (n, row, got[i].item())
                for got in (std, alone[2]):
                    assert same(got[i].item(), math.sqrt(expected_var), 4 * tolerance), (n, row, got[i].item())


def test_infinities_in_another_block():
    for n in (2**12, 2**15 + 3):
        x = fl.ones(n)
        x[n - 1] = math.inf
        assert fl.var_mean(x)[1].item() == math.inf
        x[0] = -math.inf
        assert math.isnan(fl.var_mean(x)[1].item())


@pytest.mark.parametrize("dtype, large", [(fl.float32, 3e38), (fl.float64, 1.5e308)])
def test_sums_beyond_the_largest_number(dtype, large):
    x = fl.full((40,), large, dtype=dtype)
    std, mean = fl.std_mean(x)
    assert std.item() == 0 and math.isclose(mean.item(), x[0].item(), rel_tol=1e-6)
    wide = fl.tensor([1e25, -1e25, 2e25, 0.0] * 20)
    assert math.isclose(wide.std().item(), wide.double().std().item(), rel_tol=1e-5)
