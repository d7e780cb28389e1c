"""Every operator that writes into its first argument gives what its functional form gives, or refuses as it does."""

import math
import random

import pytest

import flambeau as fl

DTYPES = [fl.bool, fl.uint8, fl.int8, fl.int16, fl.int32, fl.int64, fl.float16, fl.bfloat16, fl.float32, fl.float64]
BOUNDS = {fl.uint8: (0, 255), fl.int8: (-128, 127), fl.int16: (-(2**15), 2**15 - 1)}
BOUNDS |= {fl.int32: (-(2**31), 2**31 - 1), fl.int64: (-(2**63), 2**63 - 1)}
# Random, or another meaning in place than as a function.
OTHERS = {"bernoulli_", "requires_grad_", "squeeze_", "unsqueeze_", "t_", "transpose_", "as_strided_", "detach_", "set_"}
NAMES = sorted(
    name
    for name in dir(fl.Tensor)
    if name.endswith("_") and not name.endswith("__") and hasattr(fl.Tensor, name[:-1]) and name not in OTHERS
)
SYMBOLS = "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()


def element(draw, dtype):
    if dtype is fl.bool:
        return draw.random() < 0.5
    if dtype.is_floating_point:
        wide = 15 if dtype is fl.float16 else 60
        special = draw.choice([0.0, -0.0, math.inf, -math.inf, math.nan, float(draw.randint(-1000, 1000))])
        return draw.choice([draw.uniform(-3, 3), special, draw.uniform(-1, 1) * 2.0 ** draw.randint(-10, wide)])
    low, high = BOUNDS[dtype]
    return draw.choice([draw.randint(low, high), max(low, draw.randint(-10, 10)), low, high])


def number(draw):
    whole = [draw.randint(-10, 10), draw.randint(-300, 300), draw.randint(-70000, 70000), draw.randint(-(2**62), 2**62)]
    return draw.choice([*whole, True, False, draw.uniform(-3, 3), draw.uniform(-1e5, 1e5), float(draw.randint(-9, 9))])


def tensor(draw, dtype, sizes):
    made = fl.tensor([element(draw, dtype) for _ in range(math.prod(sizes))], dtype=dtype).reshape(sizes)
    if len(sizes) > 1 and draw.random() < 0.3:
        made = made.transpose(0, -1).contiguous().transpose(0, -1)
    return made


def outcome(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except Exception as error:
        return error


def bits(values):
    """What tells 0 from -0, and takes NaN for equal to NaN."""
    return [repr(value) for value in values.flatten().tolist()]


def check(functional, in_place, target, arguments, named):
    expected = outcome(functional, target, *arguments, **named)
    before = bits(target)
    got = outcome(in_place, target, *arguments, **named)
    if isinstance(got, Exception):
        assert bits(target) == before, "a call that failed changed its target"
        fits = isinstance(expected, fl.Tensor) and expected.shape == target.shape
        assert not fits or expected.dtype != target.dtype or "requires" in str(got), got
    else:
        assert isinstance(expected, fl.Tensor), expected
        assert bits(got) == bits(expected.to(target.dtype))


@pytest.mark.parametrize("seed", range(8))
def test_in_place_is_functional(seed):
    draw = random.Random(seed)
    for _ in range(250):
        dtype, sizes = draw.choice(DTYPES), [draw.choice([1, 2, 5, 17]) for _ in range(draw.randint(0, 3))]
        target, arguments, named = tensor(draw, dtype, sizes), [], {}
        symbol = draw.random() < 0.4
        for _ in range(1 if symbol else draw.choice([0, 1, 1, 1, 2])):
            part = sizes[draw.randint(0, len(sizes)) :] if draw.random() < 0.3 else sizes
            other = tensor(draw, draw.choice(DTYPES), part)
            arguments.append(number(draw) if draw.random() < 0.5 else other)
        if symbol:
            name = draw.choice(SYMBOLS)
            functional, in_place = (lambda x, y, f=f"__{i}{name}__": getattr(x, f)(y) for i in ("", "i"))
            if isinstance(outcome(functional, target, *arguments), type(NotImplemented)):
                continue
        else:
            name = draw.choice([*NAMES, "floor_divide_", "remainder_", "fmod_", "div_", "add_", "sub_"])
            if name == "div_" and draw.random() < 0.7:
                named = {"rounding_mode": draw.choice(["trunc", "floor"])}
            if name in ("add_", "sub_") and draw.random() < 0.5:
                named = {"alpha": number(draw)}
            functional, in_place = (lambda x, *a, f=f, **k: getattr(x, f)(*a, **k) for f in (name[:-1], name))
        try:
            check(functional, in_place, target, arguments, named)
        except AssertionError as error:
            raise AssertionError(f"{name} of {dtype} {sizes} with {arguments} {named}") from error
