"""Elementwise functions at 0, infinity and NaN, and where functions have poles and branches, as the Array API standard says."""

import math
import pathlib

import pytest

from flambeau import array_api as xp

FILE = pathlib.Path(__file__).parent / "array_api" / "special_cases.txt"
RULES = [line.split(" | ") for line in FILE.read_text().splitlines() if not line.startswith("#")]

NAN, INF = math.nan, math.inf
POSITIVE = [0.25, 1.5, 3.0]
NEGATIVE = [-value for value in POSITIVE]
FINITE = [0.0, -0.0, *POSITIVE, *NEGATIVE]
SETS = {
    "±0": [0.0, -0.0],
    "±inf": [INF, -INF],
    "finite": FINITE,
    "nonzero": POSITIVE + NEGATIVE,
    "nonzero not 1": POSITIVE + NEGATIVE + [INF, -INF, NAN],
    "positive": POSITIVE,
    "negative": NEGATIVE,
    ">0": [*POSITIVE, INF],
    "<0": [*NEGATIVE, -INF],
    ">1": [1.5, 3.0, INF],
    "<-1": [-1.5, -3.0, -INF],
    "<1": [0.25, 0.0, -3.0, -INF],
    "any": [*FINITE, INF, -INF, NAN],
    "not nan": [*FINITE, INF, -INF],
    "integer": [1.0, 2.0, -3.0, 1024.0],
    "fraction": [0.5, -2.5],
    "abs>1": [1.5, -3.0, INF, -INF],
    "abs<1": [0.25, -0.25, 0.0, -0.0],
    "odd>0": [1.0, 3.0],
    "even>0": [2.0, 4.0, 2.5, INF],
    "odd<0": [-1.0, -3.0],
    "even<0": [-2.0, -2.5, -INF],
}
MULTIPLES = {"pi": 1, "pi/2": 0.5, "pi/4": 0.25, "3pi/4": 0.75}


def operands(text):
    """All choices of values of the operands."""
    sets = [SETS.get(part) or [float(part)] for part in text.split(", ")]
    return [(first,) for first in sets[0]] if len(sets) == 1 else [(first, second) for first in sets[0] for second in sets[1]]


def same(found, expected):
    """Equal with the same sign of zeros, near where the value is rounded."""
    if math.isnan(expected):
        return math.isnan(found)
    if math.isinf(expected) or expected == 0:
        return found == expected and math.copysign(1, found) == math.copysign(1, expected)
    return math.isclose(found, expected, rel_tol=1e-6)


def fits(found, rule, values):
    """Whether a part of a result is what the rule says."""
    if rule in ("true", "false"):
        return found is (rule == "true")
    if "/" in rule and "pi" not in rule:
        return any(fits(found, part, values) for part in rule.split("/"))
    if rule.startswith("~"):
        return fits(abs(found), rule[1:], values)
    sign = -1.0 if rule.startswith("-") else 1.0
    rule = rule.removeprefix("-")
    operand = {"x1": values[0], "|x1|": abs(values[0]), "x2": values[-1], "|x2|": abs(values[-1])}
    if rule in operand:
        value = operand[rule]
        return same(found, math.copysign(value, sign) if rule == "|x1|" else value)
    return same(found, sign * (MULTIPLES[rule] * math.pi if rule in MULTIPLES else float(rule)))


def cis_parts(rule, values):
    """The results of `inf cis`, `0 cis` and `0 cis - 1`, part by part."""
    direction = complex(math.cos(values[1]), math.sin(values[1]))
    factor = INF if rule.startswith("inf") else 0.0
    # Zeros of sin and cos stay zeros of their sign.
    parts = [math.copysign(factor, part) if part or factor == 0 else part for part in (direction.real, direction.imag)]
    return [str(parts[0] - 1 if rule.endswith("- 1") else parts[0]), str(parts[1])]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("function, given, rule", [rule for rule in RULES if not rule[0].startswith("complex ")])
def test_real(function, given, rule, kind):
    for values in operands(given):
        arrays = [xp.asarray([value], dtype=getattr(xp, kind)) for value in values]
        found = getattr(xp, function)(*arrays)
        assert fits(found.tolist()[0], rule, values), (values, found)


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
@pytest.mark.parametrize("function, given, rule", [[rule[0][8:], *rule[1:]] for rule in RULES if rule[0].startswith("complex ")])
def test_complex(function, given, rule, kind):
    for values in operands(given):
        x = xp.asarray([complex(*values)], dtype=getattr(xp, kind))
        found = getattr(xp, function)(x).tolist()[0]
        parts = cis_parts(rule, values) if "cis" in rule else rule.split(", ")
        found_parts = [found.real, found.imag] if isinstance(found, complex) else [found]
        assert all(fits(part, expected, values) for part, expected in zip(found_parts, parts, strict=True)), (values, found)


@pytest.mark.parametrize("function", sorted({rule[0][8:] for rule in RULES if rule[0].startswith("complex ")} - {"round", "sign"}))
def test_conjugates(function):
    """f(conj(x)) is conj(f(x)), at special values too."""
    values = [complex(a, b) for a in SETS["any"] for b in SETS["any"]]
    x = xp.asarray(values, dtype=xp.complex128)
    of_conjugates, of_values = getattr(xp, function)(xp.conj(x)), getattr(xp, function)(x)
    expected = xp.conj(of_values) if xp.isdtype(of_values.dtype, "complex floating") else of_values
    for value, found, expected_value in zip(values, of_conjugates.tolist(), expected.tolist()):
        for part in ("real", "imag"):
            one, other = getattr(complex(found), part), getattr(complex(expected_value), part)
            assert same(one, other) or (one == other == 0), (value, found, expected_value)


def test_signs_of_nan():
    """`copysign` and `signbit` see the sign bit of NaN."""
    negative = xp.copysign(xp.asarray([NAN]), xp.asarray([-1.0]))
    assert xp.signbit(negative).tolist() == [True] and xp.signbit(-negative).tolist() == [False]
    assert xp.copysign(xp.asarray([2.0]), negative).tolist() == [-2.0]
