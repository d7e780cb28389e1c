"""`lobpcg` against all eigenvalues, by NumPy's `eigh`."""

import numpy as np
import pytest

import flambeau as fl


def symmetric(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=(*shape, shape[-1]))
    return values + np.swapaxes(values, -1, -2)


def tensor(values, **options):
    return fl.tensor(values.tolist(), dtype=fl.float64, **options)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("method", ["ortho", "basic"])
@pytest.mark.parametrize("k", [1, 3])
def test_extreme_eigenvalues(k, method, largest):
    fl.manual_seed(1)
    a = symmetric(40)
    values, vectors = fl.lobpcg(tensor(a), k=k, largest=largest, method=method, tol=1e-10)
    expected = np.linalg.eigvalsh(a)
    np.testing.assert_allclose(values.tolist(), expected[::-1][:k] if largest else expected[:k], rtol=1e-8)
    found = np.asarray(vectors.tolist())
    np.testing.assert_allclose(a @ found, found * np.asarray(values.tolist()), atol=1e-6)
    np.testing.assert_allclose(found.T @ found, np.eye(k), atol=1e-10)


def test_batches_and_initial_vectors():
    fl.manual_seed(2)
    a = symmetric(2, 3, 20)
    values, vectors = fl.lobpcg(tensor(a), k=2, n=4)
    assert values.shape == (2, 3, 2) and vectors.shape == (2, 3, 20, 2)
    np.testing.assert_allclose(values.tolist(), np.linalg.eigvalsh(a)[..., ::-1][..., :2], rtol=1e-6)
    x = fl.randn(20, 3, dtype=fl.float64)
    assert fl.lobpcg(tensor(a[0, 0]), X=x)[0].shape == (3,)
    assert fl.lobpcg(fl.zeros(0, 9, 9), k=2)[1].shape == (0, 9, 2)


def test_the_generalized_problem_and_a_preconditioner():
    fl.manual_seed(3)
    a = symmetric(30) + 40 * np.eye(30)
    root = np.random.default_rng(4).normal(size=(30, 30))
    b = root @ root.T + 30 * np.eye(30)
    values, vectors = fl.lobpcg(tensor(a), k=2, B=tensor(b), iK=tensor(np.linalg.inv(a)), largest=False, tol=1e-10)
    lower = np.linalg.cholesky(b)
    expected = np.linalg.eigvalsh(np.linalg.solve(lower, np.linalg.solve(lower, a).T))[:2]
    np.testing.assert_allclose(values.tolist(), expected, rtol=1e-7)
    found = np.asarray(vectors.tolist())
    np.testing.assert_allclose(found.T @ b @ found, np.eye(2), atol=1e-8)


def test_spaces_that_are_exhausted():
    """Residuals of 0, and directions that depend on each other, end the iteration with the right answer."""
    values, vectors = fl.lobpcg(fl.eye(9), k=3)
    assert values.tolist() == pytest.approx([1, 1, 1]) and vectors.shape == (9, 3)
    values, _ = fl.lobpcg(fl.diag(fl.arange(1.0, 7.0)), k=2)
    assert values.tolist() == pytest.approx([6, 5], rel=1e-4)
    values, _ = fl.lobpcg(fl.diag(fl.arange(1.0, 10.0)), k=1, X=fl.ones(9, 1))
    assert values.tolist() == pytest.approx([9], rel=1e-4)


def test_gradients():
    """Those of all eigenvalues and vectors, by `eigh`, for a loss that does not depend on signs."""
    a = symmetric(12, seed=5)
    weight = tensor(symmetric(12, seed=6))

    def loss(values, vectors):
        return (values * fl.tensor([1.0, -2.0], dtype=fl.float64)).sum() + (vectors * (weight @ vectors)).sum(0).sin().sum()

    x, y = tensor(a, requires_grad=True), tensor(a, requires_grad=True)
    loss(*fl.lobpcg(x, k=2, tol=1e-12)).backward()
    values, vectors = fl.linalg.eigh(y)
    loss(values.flip(0)[:2], vectors.flip(1)[:, :2]).backward()
    expected = np.asarray(y.grad.tolist())
    np.testing.assert_allclose(x.grad.tolist(), (expected + expected.T) / 2, rtol=1e-6, atol=1e-7)


def test_refusals():
    for arguments, error, words in (
        ({"A": fl.ones(2, 3)}, ValueError, "square"),
        ({"A": fl.ones(3, 3), "k": 2}, ValueError, "smaller than 3 x"),
        ({"A": fl.ones(3, 3), "k": 0}, ValueError, "expected k"),
        ({"A": fl.ones(3, 3, dtype=fl.int64)}, TypeError, "float32 or float64"),
        ({"A": fl.ones(3, 3), "method": "qr"}, ValueError, "method"),
        ({"A": fl.ones(3, 3), "tracker": print}, NotImplementedError, "tracker"),
        ({"A": fl.ones(3, 3, requires_grad=True), "B": fl.eye(3)}, NotImplementedError, "gradient"),
    ):
        with pytest.raises(error, match=words):
            fl.lobpcg(**arguments)
