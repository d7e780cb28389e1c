"""What functions promise about numbers, with cases that are drawn: NumPy's types, numbers beyond a type, weights of 0, far points."""

from __future__ import annotations

import itertools
import operator
import random

import numpy as np
import pytest

import flambeau

DTYPES = {name: getattr(flambeau, name) for name in "float64 float32 float16 int64 int32 int16 int8 uint8 bool".split()}


def scalar(rng):
    """A number, Python's or NumPy's, and the type of element that it has."""
    kind = rng.choice([*DTYPES, "float", "int", "truth"])
    if kind in DTYPES:
        return np.dtype(kind).type(rng.randint(0, 1)), DTYPES[kind]
    return {
        "float": (rng.choice([0.5, 2.0]), flambeau.float32),
        "int": (rng.randint(-3, 3), flambeau.int64),
        "truth": (rng.random() < 0.5, flambeau.bool),
    }[kind]


def promoted(dtypes):
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = flambeau.promote_types(result, dtype)
    return result


@pytest.mark.parametrize("seed", range(60))
def test_numbers_of_numpy_keep_their_type(seed):
    rng = random.Random(seed)
    value, dtype = scalar(rng)
    for take in (flambeau.tensor, flambeau.as_tensor, flambeau.asarray):
        made = take(value)
        assert made.dtype == dtype and made.item() == value and made.shape == ()
    drawn = [scalar(rng) for _ in range(rng.randint(1, 4))]
    dtype = promoted([dtype for _, dtype in drawn])
    values = [value for value, _ in drawn]
    for data in (values, tuple(values), [values, values], [[value] for value in values]):
        made = flambeau.tensor(data)
        assert made.dtype == dtype and made.flatten().tolist()[: len(values)] == [float(v) for v in values]
    assert flambeau.tensor(values, dtype=flambeau.float64).dtype == flambeau.float64
    mixed = [flambeau.tensor(1, dtype=flambeau.int16), *values]
    assert flambeau.tensor(mixed).dtype == flambeau.promote_types(flambeau.int16, dtype)
    assert flambeau.tensor([np.zeros(2, np.float64), [1, 2]]).dtype == flambeau.float64


def test_the_digits_of_a_double_are_kept():
    rng = random.Random(1)
    for _ in range(50):
        value = rng.uniform(-1, 1)
        assert flambeau.tensor(np.float64(value)).item() == value
        assert flambeau.tensor([[np.float64(value)], [1]]).tolist()[0] == [value]


COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
INTEGERS = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31), 2**31 - 1)}


@pytest.mark.parametrize("seed", range(40))
def test_numbers_beyond_a_type_are_compared_as_numbers(seed):
    rng = random.Random(seed)
    name = rng.choice([*INTEGERS, "int64"])
    low, high = INTEGERS.get(name, (-(2**63), 2**63 - 1))
    values = [low, high, *(rng.randint(max(low, -300), min(high, 300)) for _ in range(rng.choice([1, 4, 70])))]
    beyond = [low - 1, high + 1, low - 256, high + 256, high + 2**32, -1, 257, 2**62, -(2**62), 1e30, -1e30, 0, values[-1]]
    number = rng.choice([n for n in beyond if isinstance(n, float) or -(2**63) <= n < 2**63])
    x = flambeau.tensor(values, dtype=getattr(flambeau, name))
    for x, values in ((x, values), (x[2], values[2]), (x[::2], values[::2])):
        for word, compare in COMPARISONS.items():
            expected = [compare(v, number) for v in values] if isinstance(values, list) else compare(values, number)
            assert compare(x, number).tolist() == expected, (name, number, word)
            assert getattr(flambeau, word)(x, number).tolist() == expected
            assert getattr(x.clone(), word + "_")(number).bool().tolist() == expected
        if isinstance(values, list):
            assert flambeau.isin(x, number).tolist() == [v == number for v in values]
    edges = flambeau.tensor(sorted(set(flambeau.tensor(values).tolist())), dtype=getattr(flambeau, name))
    if isinstance(number, int):
        assert flambeau.searchsorted(edges, number).item() == sum(edge < number for edge in edges.tolist())


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_floats_beyond_a_type_are_compared_as_numbers(name):
    inf = float("inf")
    x = flambeau.tensor([0.0, 1.0, -1.0, inf, -inf, float("nan")], dtype=getattr(flambeau, name))
    beyond = [1e300, -1e300, inf, -inf, 0.5] + ([70000, -(10**6), 1e6] if name == "float16" else [])
    for number, (_, compare) in itertools.product(beyond, COMPARISONS.items()):
        assert compare(x, number).tolist() == [compare(v, number) for v in x.tolist()]


def test_numbers_that_a_type_does_not_hold_are_no_choice():
    x = flambeau.tensor([0, 1, 255], dtype=flambeau.uint8)
    for number in (256, 300, 2**40, -300):
        for choose in (lambda n: flambeau.where(x > 0, x, n), lambda n: flambeau.where(x > 0, n, x), lambda n: x.masked_fill(x > 0, n)):
            with pytest.raises(RuntimeError, match="cannot be converted to type uint8 without overflow"):
                choose(number)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.pow(300)
    assert flambeau.where(x > 0, x, 7.5).tolist() == [7.5, 1.0, 255.0]


@pytest.mark.parametrize("seed", range(40))
def test_weights_of_zero_are_never_drawn(seed):
    rng = random.Random(seed)
    categories, rows = rng.randint(1, 6), rng.choice([None, 1, 3])
    dtype = rng.choice([flambeau.float16, flambeau.float32, flambeau.float64])
    weights = [[rng.choice([0.0, 0.0, 1.0, 0.25]) for _ in range(categories)] for _ in range(rows or 1)]
    possible = min(sum(w > 0 for w in row) for row in weights)
    x = flambeau.tensor(weights if rows else weights[0], dtype=dtype)
    for count in range(1, categories + 1):
        for replacement in (False, True):
            if possible < (1 if replacement else count):
                with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
                    flambeau.multinomial(x, count, replacement)
                continue
            drawn = flambeau.multinomial(x, count, replacement).reshape(len(weights), count).tolist()
            assert all(row[k] > 0 for row, found in zip(weights, drawn) for k in found)
            assert replacement or all(len(set(found)) == count for found in drawn)


@pytest.mark.parametrize("seed", range(24))
def test_distances_of_far_points(seed):
    """Right to rounding wherever the points lie, and so are the gradients; beside float64."""
    rng = np.random.default_rng(seed)
    far, columns = rng.choice([0.0, 1.0, 1e2, 1e4, 1e6]), int(rng.integers(1, 6))
    batches = [((), ()), ((2,), (2,)), ((2, 1), (3,))][seed % 3]
    rows = (int(rng.integers(1, 40)), int(rng.integers(26, 40)))
    a, b = (
        (rng.normal(size=(*batch, n, columns)) + far * rng.choice([1, 1, 0])).astype(np.float32) for batch, n in zip(batches, rows)
    )
    if seed % 4 == 0:
        a = b
    mode = ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist"][seed % 2]
    x, y = (flambeau.tensor(part, requires_grad=True) for part in (a, b))
    wide = [flambeau.tensor(part.astype(np.float64), requires_grad=True) for part in (a, b)]
    exact = flambeau.linalg.vector_norm(wide[0].unsqueeze(-2) - wide[1].unsqueeze(-3), 2, -1)
    found = flambeau.cdist(x, y, compute_mode=mode)
    assert flambeau.allclose(found.double(), exact, rtol=2e-6, atol=0)
    weight = flambeau.tensor(rng.normal(size=tuple(exact.shape)))
    found.backward(weight.float())
    exact.backward(weight)
    for one, other in zip((x, y), wide):
        scale = other.grad.abs().max().item() + 1e-30
        assert (one.grad.double() - other.grad).abs().max().item() <= 4e-6 * scale
