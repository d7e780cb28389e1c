"""Residuals of decompositions beside LAPACK's, on matrices that are hard for them.

`cargo xtask python crates/python/tests/test_residuals.py -s` prints, for each decomposition and type, the largest residual and the largest
deviation from orthogonality, ours and LAPACK's (through NumPy), in units of eps * n * norm; and for which matrix ours is the worst.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau import linalg

WIDE = {"float32": np.float64, "float64": np.longdouble, "complex64": np.complex128, "complex128": np.clongdouble}
SIZES = (*range(41), 63, 64, 65)
LARGE = 257


def orthogonal(n: int, random: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(random.normal(size=(n, n)))[0]


def with_values(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    q = orthogonal(len(values), random)
    return q * values @ q.T


def kahan(n: int) -> np.ndarray:
    sine, cosine = 0.8, 0.6
    upper = np.triu(np.full((n, n), -cosine), 1) + np.eye(n)
    return sine ** np.arange(n)[:, None] * upper


def companion(n: int) -> np.ndarray:
    a = np.eye(n, k=-1)
    a[:1] = -1.0 / np.arange(1, n + 1)
    return a


def families(n: int) -> dict[str, np.ndarray]:
    """Square matrices of size `n`, in f64."""
    random = np.random.default_rng(n)
    normal, i = random.normal(size=(n, n)), np.arange(n)
    grades = np.logspace(0, -8, n)
    return {
        "random": normal,
        "graded": grades[:, None] * normal,
        "graded columns": normal * grades,
        "Hilbert": 1.0 / (1 + i[:, None] + i),
        "Kahan": kahan(n),
        "Wilkinson": np.diag(np.abs(i - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1),
        "clustered": with_values(1 + (i % 3) + 1e-13 * i, random),
        "equal": with_values(np.full(n, 2.0), random),
        "rank 1": np.outer(random.normal(size=n), random.normal(size=n)),
        "nilpotent": np.triu(normal, 1),
        "companion": companion(n),
        "zero": np.zeros((n, n)),
    }


def matrices(n: int, dtype: str) -> dict[str, np.ndarray]:
    """The families in a type, some scaled to the ends of its range; complex ones have phases."""
    found, largest = families(n), 30 if dtype in ("float32", "complex64") else 300
    for name, exponent in (("huge", largest), ("tiny", -largest)):
        found[name] = found["random"].astype(np.longdouble) * np.longdouble(10) ** exponent
    found["subnormal"] = found["random"].astype(np.longdouble) * np.finfo(dtype).tiny / 16
    if dtype.startswith("complex"):
        phases = np.exp(1j * np.arange(n * n).reshape(n, n))
        found = {name: a * phases if name in ("random", "huge", "tiny", "graded") else a for name, a in found.items()}
    return {name: a.astype(dtype) for name, a in found.items()}


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().T


def size_of(a: np.ndarray) -> float:
    """The largest magnitude, infinite where there is NaN."""
    largest = np.abs(a).max(initial=0)
    return largest if np.isfinite(largest) else np.inf


class Measure:
    """Differences in units of eps * n * norm of a matrix."""

    def __init__(self, a: np.ndarray):
        self.wide, self.eps = WIDE[a.dtype.name], float(np.finfo(a.dtype).eps)
        self.a, self.n = a.astype(self.wide), max(len(a), 1)
        norm = np.sqrt((np.abs(self.a / (size_of(self.a) or 1)) ** 2).sum()) * size_of(self.a)
        self.unit = max(self.eps * self.n * norm, np.longdouble(np.finfo(a.dtype).smallest_subnormal) * self.n)

    def of(self, *factors: np.ndarray) -> float:
        product = factors[0].astype(self.wide)
        for factor in factors[1:]:
            product = product @ factor.astype(self.wide)
        return float(size_of(self.a - product) / self.unit)

    def orthogonality(self, q: np.ndarray) -> float:
        q = q.astype(self.wide)
        return float(size_of(adjoint(q) @ q - np.eye(q.shape[1])) / (self.eps * self.n))


def positive(a: np.ndarray) -> np.ndarray:
    product = a.astype(WIDE[a.dtype.name])
    product = product @ adjoint(product)
    return (product + np.eye(len(a)) * size_of(product) * np.finfo(a.dtype).eps * 50 * len(a)).astype(a.dtype)


def hermitian(a: np.ndarray) -> np.ndarray:
    return a / 2 + adjoint(a) / 2


# Each takes a matrix and a library, and returns the residual, and the orthogonality of vectors if there are some.


def cholesky(a, library):
    a = positive(a)
    lower = library.cholesky(a)
    return Measure(a).of(lower, adjoint(lower)), 0.0


def qr(a, library):
    q, r = library.qr(a)
    measure = Measure(a)
    return measure.of(q, r), measure.orthogonality(q)


def svd(a, library):
    u, s, vh = library.svd(a)
    measure = Measure(a)
    return measure.of(u * s, vh), max(measure.orthogonality(u), measure.orthogonality(adjoint(vh)))


def eigh(a, library):
    a = hermitian(a)
    values, vectors = library.eigh(a)
    measure = Measure(a)
    return measure.of(vectors * values, adjoint(vectors)), measure.orthogonality(vectors)


def eig(a, library):
    values, vectors = library.eig(a)
    measure = Measure(a)
    wide = np.clongdouble if measure.wide in (np.longdouble, np.clongdouble) else np.complex128
    vectors = vectors.astype(wide)
    difference = measure.a.astype(wide) @ vectors - vectors * values.astype(wide)
    lengths = np.sqrt((np.abs(vectors) ** 2).sum(axis=0))
    return float(size_of(difference) / measure.unit), float(size_of(lengths - 1) / measure.eps)


def solve(a, library):
    b = np.ones((len(a), 2), a.dtype) * (size_of(a) or 1)
    x = library.solve(a, b).astype(WIDE[a.dtype.name])
    measure = Measure(a)
    difference = measure.a @ x - b
    return float(size_of(difference) / (measure.unit * max(size_of(x), 1) + measure.eps * size_of(b))), 0.0


def inv(a, library):
    inverse = library.inv(a).astype(WIDE[a.dtype.name])
    measure = Measure(a)
    difference = measure.a @ inverse - np.eye(len(a))
    return float(size_of(difference) / (measure.unit * size_of(inverse) + measure.eps)), 0.0


class Ours:
    """Flambeau, on arrays."""

    def __getattr__(self, name):
        options = {"full_matrices": False} if name == "svd" else {}

        def call(*arrays):
            made = getattr(linalg, name)(*(fl.from_numpy(np.ascontiguousarray(a)) for a in arrays), **options)
            return made.numpy() if isinstance(made, fl.Tensor) else tuple(part.numpy() for part in made)

        return call


class Lapack:
    """LAPACK, through NumPy."""

    def __getattr__(self, name):
        options = {"full_matrices": False} if name == "svd" else {}
        return lambda *arrays: getattr(np.linalg, name)(*arrays, **options)


def measured(operation, a, library):
    """None where the library refuses the matrix."""
    try:
        with np.errstate(all="ignore"):
            return operation(a, library)
    except (np.linalg.LinAlgError, RuntimeError):
        return None


# Those for which a singular matrix is an error.
REFUSED = {"solve": ("rank 1", "nilpotent", "zero"), "inv": ("rank 1", "nilpotent", "zero")}
# Products or inverses of these are beyond the range of the type.
BEYOND = {"cholesky": ("huge", "tiny", "subnormal", "zero"), "inv": ("subnormal",), "solve": ("subnormal",)}


# Where ours may be up to this multiple of eps * n, and why.
STATED = 10.0
LARGER = {
    ("eigh", "clustered"): "Jacobi's rotations of small matrices leave 20 eps where LAPACK leaves 2",
    ("eig", "graded"): "rows of a graded matrix are balanced less evenly than by LAPACK",
}
# NumPy computes these in double precision for all types, so it says nothing of single precision.
DOUBLE_IN_NUMPY = ("qr", "eig")


def bound(operation: str, name: str, dtype: str, n: int, lapack: float) -> float:
    """What a residual may be at most, in units of eps * n: three times LAPACK's, and 10 eps."""
    single = dtype in ("float32", "complex64")
    if (operation, name) in LARGER or (single and operation in DOUBLE_IN_NUMPY):
        return STATED
    return 3 * lapack + 10 / max(n, 1)


def cases(operation: str, dtype: str):
    excluded = REFUSED.get(operation, ()) + BEYOND.get(operation, ())
    for n in SIZES:
        yield from ((n, name, a) for name, a in matrices(n, dtype).items() if name not in excluded)
    if dtype in ("float32", "complex128"):
        large = matrices(LARGE, dtype)
        yield from ((LARGE, name, large[name]) for name in ("random", "graded", "clustered", "companion"))


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("operation", [cholesky, qr, svd, eigh, eig, solve, inv], ids=lambda f: f.__name__)
def test_residuals_are_beside_those_of_lapack(operation, dtype):
    worst, theirs, wrong = (0.0, 0.0), (0.0, 0.0), []
    where = ["", ""]
    for n, name, a in cases(operation.__name__, dtype):
        ours, lapack = measured(operation, a, Ours()), measured(operation, a, Lapack())
        if lapack is None:
            continue
        if ours is None:
            wrong.append(f"{name} {n}: refused")
            continue
        for part in range(2):
            if ours[part] > worst[part]:
                where[part] = f"{name} {n}"
            if not ours[part] <= bound(operation.__name__, name, dtype, n, lapack[part]):
                wrong.append(f"{name} {n}: {ours[part]:.3g}, LAPACK {lapack[part]:.3g}")
        worst, theirs = np.maximum(worst, ours), np.maximum(theirs, lapack)
    print(
        f"\n{operation.__name__:9} {dtype:10} residual {worst[0]:8.3g} LAPACK {theirs[0]:8.3g} ({where[0]}); "
        f"orthogonality {worst[1]:8.3g} LAPACK {theirs[1]:8.3g} ({where[1]})"
    )
    assert not wrong, wrong[:20]


def test_a_small_matrix_has_the_same_bits_alone_and_in_a_batch():
    random = np.random.default_rng(1)
    for dtype in WIDE:
        for n in range(1, 19):
            batch = random.normal(size=(37, n, n)).astype(dtype) + n * np.eye(n, dtype=dtype)[::-1]
            batch[3] = np.nan
            batch[5, 0, 0] = np.inf
            batch[7] = 0
            tensor = fl.from_numpy(batch)
            spd = tensor @ tensor.mH
            right = fl.from_numpy(random.normal(size=(37, n, 2)).astype(dtype))
            calls = {
                "cholesky": lambda x, i: linalg.cholesky_ex(spd[i])[0],
                "lu": lambda x, i: linalg.lu_factor_ex(x)[0],
                "inv": lambda x, i: linalg.inv_ex(x)[0],
                "solve": lambda x, i: linalg.solve_ex(x, right[i])[0],
                "det": lambda x, i: linalg.det(x),
                "qr": lambda x, i: linalg.qr(x)[0],
                "triangular": lambda x, i: linalg.solve_triangular(x, right[i], upper=False),
            }
            for name, call in calls.items():
                together = call(tensor, slice(None)).numpy()
                for start, stop in ((0, 1), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 25), (36, 37)):
                    alone = call(tensor[start:stop], slice(start, stop)).numpy()
                    np.testing.assert_array_equal(alone, together[start:stop], err_msg=f"{name} {dtype} {n} {start}")
                finite = np.isfinite(together.reshape(37, -1)).all(axis=1)
                assert finite[[i for i in range(37) if i not in (3, 5, 7)]].all(), (name, dtype, n)
