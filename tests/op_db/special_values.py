"""Writes special_values.txt: special functions by mpmath with 40 digits, rounded to float64, for the rows of `special_table.rs`.

    python special_values.py > special_values.txt

The arguments have few enough bits to be the same in every type.
"""

import mpmath as mp

mp.mp.dps = 40

SMALL = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.125, 1.25, 1.5, 1.625, 1.75, 1.875, 2]
LARGE = [2.25, 2.5, 2.75, 3, 3.5, 3.75, 4.5, 5.5, 7, 7.5, 8, 9.5, 10, 12, 15, 18, 20, 22, 30, 50, 100]
POSITIVE = SMALL + LARGE
BOTH = [-x for x in POSITIVE] + POSITIVE
# Where a phase is large, and where a series has one term.
FAR, TINY = [-1024, -4096, -32768], [2.0**-14, 2.0**-9, 2.0**-7]
UNIT = [x / 32 for x in range(-31, 32) if x]
INFINITY = mp.inf


def erfinv(x):
    return mp.erfinv(x) if abs(x) <= 1 else mp.nan


def ndtri(p):
    return mp.sqrt(2) * erfinv(2 * p - 1)


def lgamma(x):
    if x == INFINITY or x == -INFINITY or (x <= 0 and x == mp.floor(x)):
        return INFINITY
    return mp.log(abs(mp.gamma(x)))


def digamma(x):
    return mp.nan if x == -INFINITY else INFINITY if x == INFINITY else mp.digamma(x)


def scaled(f):
    return lambda x: mp.mpf(0) if mp.isinf(x) else mp.exp(-abs(x)) * f(x)


def inside(f, limit=INFINITY):
    return lambda x: limit if x == INFINITY else -limit if x == -INFINITY else f(x)


def even(f, limit=INFINITY):
    return lambda x: limit if mp.isinf(x) else f(x)


def of_positive(f, at_zero=INFINITY):
    return lambda x: mp.nan if x < 0 else at_zero if x == 0 else f(x)


def grown(order):
    return of_positive(lambda x: mp.exp(x) * mp.besselk(order, x))


ONE = {
    "erfinv": (erfinv, UNIT, [0, 2, INFINITY, -INFINITY]),
    "special_ndtri": (ndtri, [x for x in UNIT if x > 0], [0, -1, INFINITY, -INFINITY]),
    "lgamma": (lgamma, [x for x in BOTH if x > 0 or x != int(x)], [0, INFINITY, -INFINITY]),
    "digamma": (digamma, [x for x in BOTH if x > 0 or x != int(x)], [INFINITY, -INFINITY]),
    "i0": (even(lambda x: mp.besseli(0, x)), BOTH, [0, INFINITY, -INFINITY]),
    "special_i0e": (scaled(lambda x: mp.besseli(0, x)), BOTH, [0, INFINITY, -INFINITY]),
    "special_i1": (inside(lambda x: mp.besseli(1, x)), BOTH, [0, INFINITY, -INFINITY]),
    "special_i1e": (scaled(lambda x: mp.besseli(1, x)), BOTH, [0, INFINITY, -INFINITY]),
    "special_bessel_j0": (lambda x: mp.besselj(0, x), [*BOTH, *TINY], [0]),
    "special_bessel_j1": (lambda x: mp.besselj(1, x), BOTH, [0]),
    "special_bessel_y0": (of_positive(lambda x: mp.bessely(0, x), -INFINITY), POSITIVE, [0, -1, -INFINITY]),
    "special_bessel_y1": (of_positive(lambda x: mp.bessely(1, x), -INFINITY), POSITIVE, [0, -1, -INFINITY]),
    "special_modified_bessel_k0": (of_positive(lambda x: mp.besselk(0, x)), POSITIVE, [0, -1, -INFINITY]),
    "special_modified_bessel_k1": (of_positive(lambda x: mp.besselk(1, x)), POSITIVE, [0, -1, -INFINITY]),
    "special_scaled_modified_bessel_k0": (grown(0), POSITIVE, [0, -1, -INFINITY]),
    "special_scaled_modified_bessel_k1": (grown(1), POSITIVE, [0, -1, -INFINITY]),
    "special_spherical_bessel_j0": (even(lambda x: mp.sinc(x), mp.mpf(0)), BOTH, [0, INFINITY, -INFINITY]),
    "special_airy_ai": (mp.airyai, [*BOTH, *FAR], [0]),
}

ORDERS = [1.5, 2, 3, 4.5, 12]
SHAPES = [0.125, 0.5, 1, 1.5, 3.5, 8, 20, 100]
LIMITS = [0.0625, 0.5, 0.75, 1, 1.5, 3, 7, 15, 30, 90, 120]
ARGUMENTS = [0.125, 0.5, 0.75, 1, 1.75, 4, 9.5, 30]
GREAT_SHAPES = [1e6, 1e8]
GREAT_LIMITS = [999424, 1000448, 1e8]
BELOW = [-0.25, -0.5, -1.75, -2.5, -9.25]


def hurwitz(s, q):
    """The sum of `(q + k)^-s`, also where `q` is below 0 and `s` whole."""
    below = mp.mpf(0)
    while q < 0:
        below += mp.mpf(q) ** -int(s)
        q += 1
    return below + mp.zeta(s, q)


def polygamma(n, x):
    return mp.digamma(x) if n == 0 else (-1) ** (int(n) + 1) * mp.factorial(n) * hurwitz(n + 1, x)


def density(a):
    """The logarithm of what is integrated, at `t`."""
    return lambda t: mp.exp((a - 1) * mp.log(t) - t - mp.loggamma(a))


def igamma(a, x):
    if a < 1e5:
        return mp.gammainc(a, 0, x, regularized=True)
    return by_quadrature(a, x) if x <= a else 1 - by_quadrature(a, x)


def igammac(a, x):
    if a < 1e5:
        return mp.gammainc(a, x, mp.inf, regularized=True)
    return 1 - by_quadrature(a, x) if x <= a else by_quadrature(a, x)


def by_quadrature(a, x):
    """The lesser part: the integral from `x` on, away from `a`, over widths of the bell."""
    width = mp.sqrt(a) * (-1 if x <= a else 1)
    edges = [x + k * width for k in range(20)]
    return abs(mp.quad(density(a), edges))


def pairs(first, second):
    return [(a, x) for a in first for x in second]


def exact(f):
    """`f(n, x, ..)` where it may be 0, which a sum to so many digits of itself never reaches."""
    return lambda n, *x: f(n, *x, zeroprec=400)


def chebyu(n, x):
    return exact(mp.chebyu)(n, x) if n >= 0 else 0


def third(n, x):
    return chebyu(n, x) - chebyu(n - 1, x)


def fourth(n, x):
    return chebyu(n, x) + chebyu(n - 1, x)


POLYNOMIALS = {
    "chebyshev_polynomial_t": exact(mp.chebyt),
    "chebyshev_polynomial_u": chebyu,
    "chebyshev_polynomial_v": third,
    "chebyshev_polynomial_w": fourth,
    "hermite_polynomial_h": exact(mp.hermite),
    "hermite_polynomial_he": lambda n, x: exact(mp.hermite)(n, x / mp.sqrt(2)) * mp.mpf(2) ** (-n / 2),
    "laguerre_polynomial_l": lambda n, x: exact(mp.laguerre)(n, 0, x),
    "legendre_polynomial_p": exact(mp.legendre),
}
POINTS = [-2.5, -1, -0.75, -0.25, 0.125, 0.5, 1, 1.5, 3]
ORDERS_OF_POLYNOMIALS = [0, 1, 2, 3, 4, 7]


def polynomials():
    grid = pairs(POINTS, ORDERS_OF_POLYNOMIALS)
    for name, f in POLYNOMIALS.items():
        yield f"special_{name}", (lambda x, n, f=f: f(int(n), x)), grid
        if name.startswith("chebyshev"):
            yield f"special_shifted_{name}", (lambda x, n, f=f: f(int(n), 2 * x - 1)), grid


TWO = {
    "special_zeta": (hurwitz, pairs(ORDERS, ARGUMENTS) + pairs([2, 3], BELOW)),
    "polygamma": (polygamma, pairs([0, 1, 2, 3, 6], ARGUMENTS) + pairs([1, 2, 3], BELOW)),
    "igamma": (igamma, pairs(SHAPES, LIMITS) + pairs(GREAT_SHAPES, GREAT_LIMITS)),
    "igammac": (igammac, pairs(SHAPES, LIMITS) + pairs(GREAT_SHAPES, GREAT_LIMITS)),
}


def text(value):
    value = value.real if isinstance(value, mp.mpc) and value.imag == 0 else value
    return "nan" if isinstance(value, mp.mpc) or mp.isnan(value) else repr(float(value))


def main():
    print("# By special_values.py: the function, its arguments, its value; after `edge`, arguments that are no samples.")
    for name, (f, arguments, edges) in ONE.items():
        for x in arguments:
            print(name, repr(float(x)), text(f(mp.mpf(x))))
        for x in edges:
            print("edge", name, repr(float(x)), text(f(mp.mpf(x))))
    for name, (f, arguments) in TWO.items():
        for a, x in arguments:
            print(name, repr(float(a)), repr(float(x)), text(f(mp.mpf(a), mp.mpf(x))))
    for name, f, arguments in polynomials():
        for x, n in arguments:
            print(name, repr(float(x)), repr(float(n)), text(f(mp.mpf(x), mp.mpf(n))))


main()
