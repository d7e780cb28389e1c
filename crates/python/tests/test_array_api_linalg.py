"""Products of the Array API and its extension `linalg`, against NumPy."""

import numpy as np
import pytest

from array_api_samples import COMPLEX, FLOATING, INTEGER, NUMERIC, Draw, array, assert_same, dtype, name_of
from flambeau import array_api as xp

ROUNDS = 6
BATCHES = [(), (2,), (3, 2), (0,)]


def parts(kind):
    return kind if kind not in COMPLEX else {"complex64": "float32", "complex128": "float64"}[kind]


def near(kind):
    return 5e-3 if parts(kind) == "float32" else 1e-9


def close(found, expected, kind, note=None):
    """The values within what the conditions of small random matrices allow."""
    found = np.asarray(found.tolist()).reshape(tuple(found.shape))
    # Lists of no elements have lost their shape.
    expected = np.asarray(expected) if found.size else np.reshape(expected, found.shape)
    np.testing.assert_allclose(found, expected, rtol=near(kind), atol=near(kind), err_msg=str(note))


def adjoint(x):
    return xp.conj(xp.matrix_transpose(x))


def matrices(draw, kind, rows=None, columns=None):
    for batch in BATCHES:
        size = draw.random.randint(1, 4)
        yield draw.pair(kind, (*batch, rows or size, columns or rows or size))


@pytest.mark.parametrize("kind", NUMERIC)
def test_products(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        other = draw.partner(kind, NUMERIC)
        common = str(np.promote_types(kind, other))
        inner, batch = draw.random.randint(0, 3), draw.choice([(), (2,), (1,), (3, 2)])
        left, x1 = draw.pair(kind, (*batch, 2, inner), low=0, high=9)
        right, x2 = draw.pair(other, (*draw.choice([(), (1,), batch]), inner, 3), low=0, high=9)
        assert_same(xp.matmul(x1, x2), np.matmul(left.astype(common), right.astype(common)), common)
        assert_same(xp.matrix_transpose(x1), left.swapaxes(-1, -2))
        row, y = draw.pair(other, (inner,), low=0, high=9)
        assert_same(xp.matmul(x1, y), np.matmul(left.astype(common), row.astype(common)), common)
        assert_same(xp.vecdot(x1, y), np.sum(left.astype(common).conj() * row.astype(common), -1, dtype=common), common)
        assert_same(xp.tensordot(x1, x2, axes=((-1,), (-2,))), np.tensordot(left.astype(common), right.astype(common), ((-1,), (-2,))), common)
        assert_same(xp.tensordot(y, y, axes=1), np.tensordot(row, row, 1), other)
        assert_same(xp.tensordot(y, y, axes=0), np.tensordot(row, row, 0), other)
    assert xp.linalg.matmul is xp.matmul and xp.linalg.vecdot is xp.vecdot
    for call in (lambda: xp.vecdot(y, y, axis=0), lambda: xp.vecdot(xp.ones(2), xp.ones(1)), lambda: xp.matrix_transpose(xp.ones(2))):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("kind", NUMERIC)
def test_elements_of_matrices(kind):
    draw = Draw(kind)
    total = kind if kind in FLOATING else name_of(xp.sum(xp.ones(1, dtype=dtype(kind))))
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, (*draw.choice(BATCHES), 3, 4), low=0, high=5)
        offset = draw.random.randint(-3, 4)
        assert_same(xp.linalg.diagonal(x, offset=offset), np.diagonal(values, offset, -2, -1))
        assert_same(xp.linalg.trace(x, offset=offset), np.trace(values, offset, -2, -1, dtype=total), total)
        (left, x1), (right, x2) = draw.pair(kind, (3,), low=0, high=5), draw.pair(kind, (2,), low=0, high=5)
        assert_same(xp.linalg.outer(x1, x2), np.outer(left, right))
        (left, x1), (right, x2) = draw.pair(kind, (2, 3), low=0, high=5), draw.pair(kind, (3,), low=0, high=5)
        assert_same(xp.linalg.cross(x1, x2), np.cross(left, right).astype(kind))
        assert_same(xp.linalg.cross(x1.mT, xp.ones((3, 2), dtype=dtype(kind)), axis=-2), np.cross(left.T, np.ones((3, 2), kind), axis=0).astype(kind))
    for call in (lambda: xp.linalg.outer(x1, x2), lambda: xp.linalg.cross(xp.ones(2), xp.ones(2)), lambda: xp.linalg.cross(x1, x2, axis=1)):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("kind", FLOATING)
def test_factors(kind):
    draw = Draw(kind)
    for values, x in matrices(draw, kind):
        size = values.shape[-1]
        positive = xp.add(xp.matmul(x, adjoint(x)), xp.eye(size, dtype=dtype(kind)))
        lower, upper = xp.linalg.cholesky(positive), xp.linalg.cholesky(positive, upper=True)
        close(xp.matmul(lower, adjoint(lower)), positive.tolist(), kind)
        close(xp.matmul(adjoint(upper), upper), positive.tolist(), kind)
        for mode in ("reduced", "complete"):
            for rows, columns in ((size + 1, size), (size, size + 1)):
                tall, y = draw.pair(kind, (*values.shape[:-2], rows, columns))
                q, r = xp.linalg.qr(y, mode=mode)
                assert q.shape[-1] == r.shape[-2] == (rows if mode == "complete" else min(rows, columns))
                close(xp.matmul(q, r), tall, kind)
                close(xp.matmul(adjoint(q), q), np.broadcast_to(np.eye(q.shape[-1]), (*values.shape[:-2], q.shape[-1], q.shape[-1])), kind)
    assert xp.linalg.qr(x)._fields == ("Q", "R")
    with pytest.raises(ValueError, match="mode"):
        xp.linalg.qr(x, mode="r")


@pytest.mark.parametrize("kind", FLOATING)
def test_singular_values(kind):
    draw = Draw(kind)
    for batch in BATCHES:
        for rows, columns in ((3, 2), (2, 4), (3, 3)):
            values, x = draw.pair(kind, (*batch, rows, columns))
            for full in (True, False):
                u, s, vh = xp.linalg.svd(x, full_matrices=full)
                few = min(rows, columns)
                assert u.shape[-2:] == (rows, rows if full else few) and vh.shape[-2:] == (columns if full else few, columns)
                assert s.dtype == dtype(parts(kind))
                close(xp.matmul(xp.multiply(u[..., :few], xp.astype(xp.expand_dims(s, -2), dtype(kind))), vh[..., :few, :]), values, kind)
            close(xp.linalg.svdvals(x), np.linalg.svd(values, compute_uv=False), kind)
            close(xp.linalg.pinv(x), np.linalg.pinv(values), kind)
            close(xp.linalg.pinv(x, rtol=0.5), np.linalg.pinv(values, rcond=0.5), kind)
            assert_same(xp.linalg.matrix_rank(x), np.full(batch, min(rows, columns)))
            assert_same(xp.linalg.matrix_rank(x, rtol=2.0), np.zeros(batch, dtype="int64"))
            for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
                expected = np.asarray(np.linalg.norm(values, order, (-2, -1), keepdims=True))
                close(xp.linalg.matrix_norm(x, ord=order, keepdims=True), expected, kind, order)
                assert xp.linalg.matrix_norm(x, ord=order).shape == batch
    assert xp.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert xp.linalg.svd(xp.ones((2, 3))).U.shape == (2, 2) and xp.linalg.svd(xp.ones((2, 3))).Vh.shape == (3, 3)


@pytest.mark.parametrize("kind", FLOATING)
def test_eigenvalues(kind):
    draw = Draw(kind)
    complex_kind = kind if kind in COMPLEX else {"float32": "complex64", "float64": "complex128"}[kind]
    for values, x in matrices(draw, kind):
        symmetric = xp.add(x, adjoint(x))
        found = xp.linalg.eigh(symmetric)
        assert found._fields == ("eigenvalues", "eigenvectors") and found.eigenvalues.dtype == dtype(parts(kind))
        vectors = found.eigenvectors
        close(xp.matmul(symmetric, vectors), xp.multiply(vectors, xp.astype(xp.expand_dims(found.eigenvalues, -2), dtype(kind))).tolist(), kind)
        close(xp.linalg.eigvalsh(symmetric), found.eigenvalues.tolist(), kind)
        found = xp.linalg.eig(x)
        assert found._fields == ("eigenvalues", "eigenvectors") and {part.dtype for part in found} == {dtype(complex_kind)}
        of_complex = xp.astype(x, dtype(complex_kind))
        close(xp.matmul(of_complex, found.eigenvectors), xp.multiply(found.eigenvectors, xp.expand_dims(found.eigenvalues, -2)).tolist(), kind)
        close(xp.sum(xp.linalg.eigvals(x), axis=-1), np.trace(values, axis1=-2, axis2=-1), kind)


@pytest.mark.parametrize("kind", FLOATING)
def test_determinants_and_systems(kind):
    draw = Draw(kind)
    for values, x in matrices(draw, kind):
        size = values.shape[-1]
        values = values + 3 * np.eye(size, dtype=kind)
        x = array(values)
        close(xp.linalg.det(x), np.linalg.det(values), kind)
        found, expected = xp.linalg.slogdet(x), np.linalg.slogdet(values)
        assert found._fields == ("sign", "logabsdet") and found.logabsdet.dtype == dtype(parts(kind))
        close(found.sign, expected[0], kind)
        close(found.logabsdet, expected[1], kind)
        close(xp.linalg.inv(x), np.linalg.inv(values), kind)
        for power in (-2, 0, 1, 3):
            close(xp.linalg.matrix_power(x, power), np.linalg.matrix_power(values, power), kind, power)
        vector, b = draw.pair(kind, (size,))
        close(xp.linalg.solve(x, b), np.linalg.solve(values, vector), kind)
        # An array of as many dimensions as the vectors of the batch would have is one of matrices.
        columns, b = draw.pair(kind, (size, size))
        close(xp.linalg.solve(x, b), np.linalg.solve(values, columns), kind)
    with pytest.raises(RuntimeError):
        xp.linalg.inv(xp.zeros((2, 2)))


@pytest.mark.parametrize("kind", FLOATING)
def test_norms_of_vectors(kind):
    draw = Draw(kind)
    for _ in range(ROUNDS):
        values, x = draw.pair(kind, draw.shape(smallest=1))
        axes, keepdims = draw.axes(values.ndim), draw.choice([True, False])
        for order in (2, 1, 0, 3.5, -1, np.inf, -np.inf):
            along = tuple(range(values.ndim)) if axes is None else (axes,) if isinstance(axes, int) else axes
            if order == 0:
                expected = np.sum(values != 0, axis=along, keepdims=keepdims)
            elif np.isinf(order):
                expected = (np.max if order > 0 else np.min)(np.abs(values), axis=along, keepdims=keepdims)
            else:
                expected = np.sum(np.abs(values).astype("float64") ** order, axis=along, keepdims=keepdims) ** (1 / order)
            found = xp.linalg.vector_norm(x, axis=axes, keepdims=keepdims, ord=order)
            assert name_of(found) == parts(kind) and found.shape == np.shape(expected), (order, axes, keepdims)
            close(found, expected, kind, (order, axes, keepdims))


def test_integers_are_no_numbers_of_decompositions():
    for kind in INTEGER[:1]:
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            xp.linalg.qr(xp.ones((2, 2), dtype=dtype(kind)))
