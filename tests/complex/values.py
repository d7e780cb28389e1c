"""Writes values.txt: functions of complex numbers, for the tests beside this file.

    python values.py > values.txt

Lines of `value` are by mpmath with 60 digits, rounded to float64. Lines of `edge` are special values by NumPy, whose functions are those of
the C library and follow C99, Annex G. The arguments have few enough bits to be the same in float32.
"""

import math
import random

import mpmath as mp
import numpy as np

mp.mp.dps = 60
NAMES = ["sqrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"]
NUMPY = {name: getattr(np, name.replace("a", "arc", 1) if name[0] == "a" and name != "abs" else name) for name in NAMES}
EDGES = [0.0, -0.0, 1.0, 2.5, math.inf, -math.inf, math.nan]


def arguments():
    """Pairs of all sizes, on the axes, and close to 1 and to the unit circle."""
    draw = random.Random(1)
    sizes = [2.0**e for e in (-24, -12, -6, -3, -1, 0, 1, 2, 4)]
    for a in sizes:
        for b in draw.sample(sizes, 4):
            yield (
                draw.choice((-1, 1)) * a * draw.randrange(64, 128) / 64,
                draw.choice((-1, 1)) * b * draw.randrange(64, 128) / 64,
            )
    for a in (0.25, 0.75, 1.5, 3.0, -0.25, -0.75, -1.5, -3.0):
        yield (a, 2.0**-20)
        yield (2.0**-20, a)
    for angle in range(1, 16):
        yield (round(math.cos(angle) * 4096) / 4096, round(math.sin(angle) * 4096) / 4096)
    yield from ((1 + 2.0**-12, 2.0**-12), (1 - 2.0**-12, -(2.0**-10)), (-1 + 2.0**-11, 2.0**-14), (1.0, 2.0**-20))


def number(x):
    return "nan" if math.isnan(x) else repr(float(x))


def line(kind, name, z, w):
    print(kind, name, *map(number, (*z, *w)))


print("# By values.py: the kind of line, the function, the parts of its argument and of its value.")
for name in NAMES:
    for z in arguments():
        value = getattr(mp, name)(mp.mpc(*z))
        line("value", name, z, (value.real, value.imag))
with np.errstate(all="ignore"):
    for name in NAMES:
        for re in EDGES:
            for im in EDGES:
                w = NUMPY[name](np.complex128(complex(re, im)))
                line("edge", name, (re, im), (w.real, w.imag))
