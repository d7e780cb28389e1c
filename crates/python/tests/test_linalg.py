"""Factorizations and decompositions against NumPy's, and what makes them fail."""

from __future__ import annotations

import time

import numpy as np
import pytest

import flambeau as fl
from flambeau import linalg

RANDOM = np.random.default_rng(0)
SIZES = (0, 1, 2, 3, 8, 33, 65)


def drawn(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def definite(n: int) -> np.ndarray:
    a = drawn(n, n)
    return a @ a.T + np.eye(n)


def ours(array: np.ndarray) -> fl.Tensor:
    return fl.from_numpy(np.ascontiguousarray(array))


def residual(expected: np.ndarray, got: np.ndarray) -> float:
    """The largest difference, in units of the last digit of the norm."""
    if expected.size == 0:
        return 0.0
    return float(np.abs(expected - got).max() / (np.finfo(expected.dtype).eps * max(np.linalg.norm(expected), 1e-300)))


def no_worse(ours: float, lapack: float) -> None:
    assert ours <= 3 * lapack + 10


@pytest.mark.parametrize("n", SIZES)
def test_factorizations_are_as_good_as_lapacks(n):
    for shape in ((n, n), (n + 5, n), (n, n + 5)):
        a = drawn(*shape)
        p, lower, upper = (x.numpy() for x in linalg.lu(ours(a)))
        no_worse(residual(a, p @ lower @ upper), 1)
        q, r = (x.numpy() for x in linalg.qr(ours(a)))
        theirs = np.linalg.qr(a)
        no_worse(residual(a, q @ r), residual(a, theirs.Q @ theirs.R))
        np.testing.assert_allclose(np.abs(r), np.abs(theirs.R), atol=1e-12)
        u, s, vh = (x.numpy() for x in linalg.svd(ours(a), full_matrices=False))
        theirs = np.linalg.svd(a, full_matrices=False)
        no_worse(residual(a, u * s @ vh), residual(a, theirs.U * theirs.S @ theirs.Vh))
        np.testing.assert_allclose(s, theirs.S, atol=1e-13 * (1 + s.max(initial=0)))
        assert [x.shape for x in linalg.svd(ours(a))] == [(shape[0],) * 2, (min(shape),), (shape[1],) * 2]
    spd = definite(n)
    lower = linalg.cholesky(ours(spd)).numpy()
    no_worse(residual(spd, lower @ lower.T), residual(spd, np.linalg.cholesky(spd) @ np.linalg.cholesky(spd).T))
    values, vectors = (x.numpy() for x in linalg.eigh(ours(spd)))
    theirs = np.linalg.eigh(spd)
    no_worse(residual(spd, vectors * values @ vectors.T), residual(spd, theirs[1] * theirs[0] @ theirs[1].T))
    np.testing.assert_allclose(values, theirs[0], rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_systems_and_determinants(n):
    a, b = drawn(n, n) + 3 * np.eye(n), drawn(n, 4)
    np.testing.assert_allclose(linalg.solve(ours(a), ours(b)).numpy(), np.linalg.solve(a, b), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(linalg.inv(ours(a)).numpy(), np.linalg.inv(a), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(linalg.det(ours(a)).numpy(), np.linalg.det(a), rtol=1e-11)
    sign, logarithm = linalg.slogdet(ours(a))
    expected = np.linalg.slogdet(a)
    assert sign.item() == expected.sign
    np.testing.assert_allclose(logarithm.item(), expected.logabsdet, rtol=1e-11, atol=1e-12)


def test_results_have_names_layouts_and_types():
    a = ours(definite(3)[None].repeat(2, axis=0))
    factors = linalg.lu_factor_ex(a)
    assert factors.LU is factors[0] and factors.pivots.dtype == factors.info.dtype == fl.int32
    assert linalg.eigh(a).eigenvalues.shape == (2, 3)
    assert linalg.svd(a).Vh.shape == (2, 3, 3)
    assert linalg.slogdet(a)._fields == ("sign", "logabsdet")
    assert linalg.lstsq(a, a)._fields == ("solution", "residuals", "rank", "singular_values")
    for made in (linalg.cholesky(a), linalg.inv(a), linalg.solve(a, a), linalg.lu_factor(a)[0], linalg.qr(a).Q):
        assert made.stride() == (9, 1, 3)
    out = fl.empty(0, dtype=fl.float64)
    assert linalg.inv(a, out=out) is out and out.shape == (2, 3, 3)
    assert a.det().shape == (2,) and a.inverse().equal(linalg.inv(a)) and fl.logdet(a).shape == (2,)


def test_errors_are_pytorchs():
    singular = fl.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]])
    assert issubclass(linalg.LinAlgError, RuntimeError)
    with pytest.raises(linalg.LinAlgError, match=r"^linalg.inv: \(Batch element 1\): The diagonal element 2 is zero"):
        linalg.inv(singular)
    with pytest.raises(linalg.LinAlgError, match="^torch.linalg.solve: The solver failed because the input matrix is singular."):
        linalg.solve(singular[1], fl.ones(2))
    with pytest.raises(linalg.LinAlgError, match="the leading minor of order 2 is not positive-definite"):
        linalg.cholesky(singular[1])
    with pytest.raises(RuntimeError, match="Low precision dtypes not supported"):
        linalg.inv(singular.half())
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input"):
        linalg.inv(singular.long())
    assert linalg.inv_ex(singular).info.tolist() == [0, 2]
    assert linalg.cholesky_ex(singular).info.tolist() == [0, 2]
    assert linalg.det(singular).tolist() == [1.0, 0.0]


def test_numbers_that_are_not_finite_end_at_once():
    start = time.monotonic()
    for bad in (float("nan"), float("inf")):
        a = ours(definite(200))
        a[100, 100] = bad
        for call in (linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals, linalg.pinv):
            with pytest.raises(linalg.LinAlgError, match="non-finite values"):
                call(a)
        linalg.lu_factor_ex(a), linalg.qr(a), linalg.det(a), fl.matrix_exp(a)
        assert linalg.cholesky_ex(a).info > 0 or bad > 0
    assert time.monotonic() - start < 20


def results(call, a: fl.Tensor) -> list[fl.Tensor] | None:
    """What a function gives, or None if it refuses."""
    try:
        given = call(a)
    except RuntimeError:  # LinAlgError is one of these
        return None
    return [given] if isinstance(given, fl.Tensor) else list(given)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("n", range(1, 10))
def test_nan_and_infinity_at_every_position(n, dtype):
    """Every function ends, leaves its argument alone, and does not give finite numbers for NaN."""
    of_one_triangle = {linalg.eigh, linalg.eigvalsh, linalg.cholesky}
    others = (linalg.svd, linalg.svdvals, linalg.eig, linalg.eigvals, linalg.qr, linalg.lu, linalg.lu_factor, linalg.inv)
    more = (linalg.det, linalg.slogdet, linalg.pinv, linalg.matrix_exp, linalg.matrix_rank, linalg.cond)
    solved = (lambda a: linalg.solve(a, fl.ones(n, 1, dtype=a.dtype)), lambda a: linalg.matrix_power(a, -2))
    for position in range(n * n):
        for bad in (float("nan"), float("inf"), -float("inf")):
            a = ours(definite(n).astype(dtype))
            a.view(-1)[position] = bad
            before = a.numpy().tobytes()
            for call in (*of_one_triangle, *others, *more, *solved):
                found = results(call, a)
                assert a.numpy().tobytes() == before
                is_read = call not in of_one_triangle or position // n >= position % n
                if bad != bad and is_read and found is not None and call is not linalg.matrix_rank:
                    assert any(not fl.isfinite(x).all() for x in found), f"{call} of {a}"


def test_large_matrices_with_nan_take_no_longer_than_others():
    a = ours(definite(300))
    for call in (linalg.eigh, linalg.svd, linalg.eig, linalg.qr, linalg.lu_factor, linalg.inv, linalg.cholesky_ex):
        seconds = []
        for bad in (None, float("nan"), float("inf")):
            b = a.clone()
            if bad is not None:
                b[150, 150] = bad
            start = time.process_time()
            results(call, b)
            seconds.append(time.process_time() - start)
        # Beside other processes a call may take twice as long as the one before.
        assert max(seconds[1:]) <= 3 * seconds[0] + 0.1, f"{call}: {seconds}"


def test_spectral_values_of_f32_are_right_to_the_last_digit():
    a = definite(100).astype(np.float32)
    exact = np.linalg.eigvalsh(a.astype(np.float64))
    error = np.abs(linalg.eigvalsh(ours(a)).numpy() - exact).max() / (np.finfo(np.float32).eps * exact.max())
    assert error <= 1


def test_composed_functions():
    a = drawn(5, 3)
    np.testing.assert_allclose(linalg.pinv(ours(a)).numpy(), np.linalg.pinv(a), atol=1e-13)
    np.testing.assert_allclose(linalg.lstsq(ours(a), ours(drawn(5, 2))).solution.shape, (3, 2))
    assert linalg.matrix_rank(ours(np.outer(a[:, 0], a[0]))).item() == 1
    np.testing.assert_allclose(linalg.cond(ours(a)).item(), np.linalg.cond(a))
    for order in (2, -2, "nuc", "fro"):
        np.testing.assert_allclose(linalg.matrix_norm(ours(a), order).item(), np.linalg.norm(a, order))
    square = drawn(3, 3)
    np.testing.assert_allclose(linalg.matrix_power(ours(square), -3).numpy(), np.linalg.matrix_power(square, -3), rtol=1e-9)
    np.testing.assert_allclose(fl.matrix_exp(ours(np.diag([1.0, -2.0, 30.0]))).numpy(), np.diag(np.exp([1.0, -2.0, 30.0])), rtol=1e-13)
    rotation = fl.matrix_exp(fl.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=fl.float64)).numpy()
    np.testing.assert_allclose(rotation, [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]], rtol=1e-14)
    np.testing.assert_allclose(linalg.tensorinv(ours(drawn(2, 3, 6))).shape, (6, 2, 3))


@pytest.mark.parametrize("n", SIZES)
def test_complex_matrices_are_as_good_as_lapacks(n):
    for shape in ((n, n), (n + 5, n), (n, n + 5)):
        a = drawn(*shape) + 1j * drawn(*shape)
        p, lower, upper = (x.numpy() for x in linalg.lu(ours(a)))
        no_worse(residual(a, p @ lower @ upper), 1)
        q, r = (x.numpy() for x in linalg.qr(ours(a)))
        theirs = np.linalg.qr(a)
        no_worse(residual(a, q @ r), residual(a, theirs.Q @ theirs.R))
        # LAPACK's reflectors: the same factors, signs included.
        np.testing.assert_allclose(r, theirs.R, atol=1e-12)
        u, s, vh = (x.numpy() for x in linalg.svd(ours(a), full_matrices=False))
        theirs = np.linalg.svd(a, full_matrices=False)
        no_worse(residual(a, u * s @ vh), residual(a, theirs.U * theirs.S @ theirs.Vh))
        np.testing.assert_allclose(s, theirs.S, atol=1e-13 * (1 + s.max(initial=0)))
        np.testing.assert_allclose(linalg.pinv(ours(a)).numpy(), np.linalg.pinv(a), atol=1e-9)
    b = drawn(n, n) + 1j * drawn(n, n)
    spd = b @ b.conj().T + np.eye(n)
    lower = linalg.cholesky(ours(spd)).numpy()
    np.testing.assert_allclose(lower, np.linalg.cholesky(spd), atol=1e-11)
    values, vectors = (x.numpy() for x in linalg.eigh(ours(spd)))
    no_worse(residual(spd, vectors * values @ vectors.conj().T), 5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(spd), rtol=1e-12)
    a = b + 3 * np.eye(n)
    np.testing.assert_allclose(linalg.solve(ours(a), ours(b)).numpy(), np.linalg.solve(a, b), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(linalg.det(ours(a)).numpy(), np.linalg.det(a), rtol=1e-11)
    sign, logarithm = linalg.slogdet(ours(a))
    expected = np.linalg.slogdet(a)
    np.testing.assert_allclose([sign.item(), logarithm.item()], [expected.sign, expected.logabsdet], rtol=1e-10, atol=1e-12)


def matched(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest distance of an eigenvalue to the nearest of the others."""
    distances = np.abs(ours[:, None] - theirs[None, :])
    return float(max(distances.min(axis=0).max(initial=0), distances.min(axis=1).max(initial=0))) if ours.size else 0.0


@pytest.mark.parametrize("n", SIZES)
def test_eigenvalues_are_as_good_as_lapacks(n):
    for a in (drawn(n, n), drawn(n, n) + 1j * drawn(n, n)):
        values, vectors = (x.numpy() for x in linalg.eig(ours(a)))
        theirs = np.linalg.eig(a)
        assert values.dtype == vectors.dtype == np.complex128
        error = residual(a @ theirs.eigenvectors, theirs.eigenvectors * theirs.eigenvalues)
        no_worse(residual(a @ vectors, vectors * values), error)
        assert matched(values, theirs.eigenvalues) <= 1e-10
        np.testing.assert_array_equal(linalg.eigvals(ours(a)).numpy(), values)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), np.ones(n), rtol=1e-13)
    half = drawn(n, n).astype(np.float32)
    assert linalg.eigvals(ours(half)).dtype == fl.complex64
    assert linalg.eig(fl.zeros(2, n, n)).eigenvectors.shape == (2, n, n)


def test_eigenvalues_of_defective_and_extreme_matrices_end():
    start = time.monotonic()
    for a in (np.eye(30, k=1), np.diag(np.full(20, 2.0)) + np.eye(20, k=1), drawn(20, 20) * 1e300, drawn(20, 20) * 1e-310):
        values, vectors = linalg.eig(ours(a))
        assert bool(fl.isfinite(values).all()) and bool(fl.isfinite(vectors).all())
    for bad in (float("nan"), float("inf")):
        for at in range(9):
            a = drawn(3, 3)
            a.flat[at] = bad
            for call in (linalg.eig, linalg.eigvals):
                with pytest.raises(RuntimeError, match=r"^torch.linalg.eig: input tensor should not contain infs or NaNs\.$"):
                    call(ours(a))
            linalg.ldl_factor_ex(ours(a))
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("n", SIZES)
def test_indefinite_systems(n):
    real, both = drawn(n, n), drawn(n, n) + 1j * drawn(n, n)
    right = drawn(n, 2)
    for a, hermitian in ((real + real.T, False), (both + both.T, False), (both + both.conj().T, True)):
        factors = linalg.ldl_factor_ex(ours(a), hermitian=hermitian)
        assert factors._fields == ("LD", "pivots", "info") and factors.info.item() == 0
        b = right.astype(a.dtype)
        x = linalg.ldl_solve(factors.LD, factors.pivots, ours(b), hermitian=hermitian).numpy()
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-7, atol=1e-7)
        np.testing.assert_array_equal(factors.LD.triu(1).numpy(), np.zeros((n, n)))


def test_roots_polar_and_low_rank_decompositions():
    a = definite(6)
    root = linalg.matrix_sqrth(ours(a)).numpy()
    np.testing.assert_allclose(root @ root, a, atol=1e-12)
    u, h = (x.numpy() for x in linalg.polar(ours(drawn(7, 4) + 1j * drawn(7, 4))))
    np.testing.assert_allclose(u.conj().T @ u, np.eye(4), atol=1e-13)
    assert np.linalg.eigvalsh(h).min() > 0
    fl.manual_seed(0)
    for shape in ((40, 9), (9, 40), (3, 12, 9)):
        low = drawn(*shape[:-1], 4) @ drawn(*shape[:-2], 4, shape[-1])
        u, s, v = (x.numpy() for x in fl.svd_lowrank(ours(low), q=5))
        np.testing.assert_allclose((u * s[..., None, :]) @ v.swapaxes(-1, -2), low, atol=1e-10)
        np.testing.assert_allclose(s[..., :4], np.linalg.svd(low, compute_uv=False)[..., :4], rtol=1e-10)
        u, s, v = (x.numpy() for x in fl.pca_lowrank(ours(low), q=5))
        centered = low - low.mean(-2, keepdims=True)
        np.testing.assert_allclose((u * s[..., None, :]) @ v.swapaxes(-1, -2), centered, atol=1e-10)
    with pytest.raises(ValueError, match=r"q\(=10\) must be non-negative integer and not greater than min\(m, n\)=9"):
        fl.pca_lowrank(ours(drawn(40, 9)), q=10)
    np.testing.assert_allclose(fl.norm(ours(a), "nuc").item(), np.linalg.norm(a, "nuc"))
    assert len(fl.lu(ours(a))) == 2 and fl.lu(fl.zeros(2, 2), get_infos=True)[2].item() == 1
    b = drawn(6, 2)
    np.testing.assert_allclose(fl.lu_solve(ours(b), *linalg.lu_factor(ours(a))).numpy(), np.linalg.solve(a, b), rtol=1e-9)


def test_covariances_norms_and_chains_of_complex_matrices():
    a = drawn(3, 8) + 1j * drawn(3, 8)
    np.testing.assert_allclose(fl.cov(ours(a)).numpy(), np.cov(a), atol=1e-13)
    np.testing.assert_allclose(fl.corrcoef(ours(a)).numpy(), np.corrcoef(a), atol=1e-13)
    for weight in (fl.tensor([1, 2, 1, 1, 3, 1, 1, 1]),):
        np.testing.assert_allclose(fl.cov(ours(a), fweights=weight).numpy(), np.cov(a, fweights=weight.numpy()), atol=1e-13)
    for order in (2, -2, 1, -1, float("inf"), "fro", "nuc"):
        np.testing.assert_allclose(linalg.matrix_norm(ours(a), order).item(), np.linalg.norm(a, order))
    assert linalg.matrix_norm(fl.zeros(2, 0, 3), 2).tolist() == [0.0, 0.0]
    np.testing.assert_allclose(fl.chain_matmul(ours(a), ours(a.T), ours(a)).numpy(), a @ a.T @ a, atol=1e-12)
    np.testing.assert_allclose(linalg.multi_dot([ours(a), ours(a.T), ours(a)]).numpy(), a @ a.T @ a, atol=1e-12)


@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
def test_a_negative_bound_of_lstsq_is_the_precision(driver):
    a, b = fl.tensor([[1.0, 0.0], [0.0, 1e-20]], dtype=fl.float64), fl.ones(2, 1, dtype=fl.float64)
    found = linalg.lstsq(a, b, rcond=-1.0, driver=driver)
    assert found.rank.item() == 1 and found.solution.tolist() == [[1.0], [0.0]]


def test_gradients_reach_the_argument():
    a = ours(definite(4)).requires_grad_()
    (linalg.cholesky(a).sum() + linalg.eigvalsh(a).sum() + linalg.det(a) + linalg.svdvals(a).sum()).backward()
    assert a.grad is not None and bool(fl.isfinite(a.grad).all())
    singular = fl.zeros(2, 2, dtype=fl.float64, requires_grad=True)
    with fl.no_grad():
        singular[0, 0] = 2.0
    linalg.det(singular).backward()
    # Cofactors: PyTorch's gradient is 0 here.
    np.testing.assert_allclose(singular.grad.numpy(), [[0.0, 0.0], [0.0, 2.0]], atol=1e-14)


def test_orthogonal_weights_are_orthogonal():
    fl.manual_seed(0)
    for shape in ((4, 7), (7, 4), (5, 2, 3)):
        weight = fl.nn.init.orthogonal_(fl.empty(*shape), gain=2.0)
        flat = weight.reshape(shape[0], -1).numpy()
        gram = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
        np.testing.assert_allclose(gram, 4 * np.eye(gram.shape[0]), atol=1e-5)
    with pytest.raises(ValueError, match="2 or more dimensions"):
        fl.nn.init.orthogonal_(fl.empty(3))
