"""`lobpcg`: a few extreme eigenvalues of a large symmetric matrix, from products with it.

A. V. Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient method" (2001).
Each step takes the best vectors of the space that is spanned by the present ones, their residuals, and their last change.
"""

from __future__ import annotations

import math

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["lobpcg"]


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest eigenvalues of A x = λ B x and their vectors, or the smallest; A is symmetric, B is positive definite.

    `X` has initial vectors, `iK` is nearly the inverse of A. Gradients are those of A where no eigenvalue is repeated and B is None.
    """
    _check(A, B, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams)
    if k is None:
        k = 1 if X is None else X.shape[-1]
    count = X.shape[-1] if X is not None else k if n is None else n
    rows = A.shape[-1]
    if not 1 <= k <= count:
        raise ValueError(f"lobpcg: expected k in [1, {count}] but got {k}")
    if rows < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller than 3 x the number of requested "
            f"eigenpairs (={count})"
        )
    if tol is None:
        tol = flambeau.finfo(A.dtype).eps ** 0.5
    options = (k, tol, 1000 if niter is None else niter, largest is None or largest)
    symmetric = (A + A.mT) / 2
    if X is None:
        X = flambeau.randn(*A.shape[:-1], count, dtype=A.dtype, device=A.device)
    values, vectors = _Eigenpairs.apply(symmetric, B, X, iK, options)
    return values, vectors


def _check(A: Tensor, B: Tensor | None, method: str | None, tracker: Any, *parameters: Any) -> None:
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"lobpcg: expected A to be square matrices but got {tuple(A.shape)}")
    if A.dtype not in (flambeau.float32, flambeau.float64):
        raise TypeError(f"lobpcg: expected A of float32 or float64 but got {A.dtype}")
    if method not in (None, "ortho", "basic"):
        raise ValueError(f"lobpcg: expected method to be 'ortho' or 'basic' but got {method!r}")
    if tracker is not None or any(part is not None for part in parameters):
        raise NotImplementedError("lobpcg: tracker and the parameters of orthogonalization are not implemented")
    if B is not None and flambeau.is_grad_enabled() and (A.requires_grad or B.requires_grad):
        raise NotImplementedError("lobpcg: expected no gradient where B is given: detach A and B")


class _Eigenpairs(flambeau.autograd.Function):
    """The iteration, and the gradient by the formula of perturbed eigenvalues."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, options: tuple[int, float, int, bool]) -> Any:
        batch = A.shape[:-2]
        matrices, masses, starts, inverses = (_matrices(part, batch) for part in (A, B, X, iK))
        found = [_iterate(a, b, x, inverse, *options) for a, b, x, inverse in zip(matrices, masses, starts, inverses)]
        k = options[0]
        values = flambeau.stack([pair[0] for pair in found]) if found else A.new_zeros((0, k))
        vectors = flambeau.stack([pair[1] for pair in found]) if found else A.new_zeros((0, A.shape[-1], k))
        values, vectors = values.reshape(*batch, k), vectors.reshape(*batch, A.shape[-1], k)
        ctx.save_for_backward(A, values, vectors)
        return values, vectors

    @staticmethod
    @flambeau.autograd.function.once_differentiable
    def backward(ctx: Any, grad_values: Tensor, grad_vectors: Tensor) -> Any:
        A, values, vectors = ctx.saved_tensors
        grad = (vectors * grad_values.unsqueeze(-2)) @ vectors.mT
        unit = flambeau.eye(A.shape[-1], dtype=A.dtype)
        # A shift that moves the eigenvalue of the vector itself away from 0, on the scale of the others.
        scale = A.abs().amax((-2, -1), keepdim=True) + 1
        for at in range(values.shape[-1]):
            vector, value = vectors[..., at : at + 1], values[..., at : at + 1].unsqueeze(-1)
            along = vector @ vector.mT
            across = grad_vectors[..., at : at + 1] - along @ grad_vectors[..., at : at + 1]
            change = flambeau.linalg.solve(A - value * unit + scale * along, across)
            grad = grad - change @ vector.mT
        return (grad + grad.mT) / 2, None, None, None, None


def _matrices(part: Tensor | None, batch: Sequence[int]) -> list[Any]:
    """The matrices of a batch one by one; None for each where there are none."""
    if part is None:
        return [None] * math.prod(batch)
    return list(part.expand(*batch, *part.shape[-2:]).reshape(math.prod(batch), *part.shape[-2:]).unbind(0))


def _iterate(
    A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, k: int, tol: float, niter: int, largest: bool
) -> tuple[Tensor, Tensor]:
    """The eigenvalues and vectors of one matrix."""

    def mass(vectors: Tensor) -> Tensor:
        return vectors if B is None else B @ vectors

    sizes = A.norm(), 1.0 if B is None else B.norm()
    values, vectors = _best(A, _orthonormal(X, mass), X.shape[-1], largest)
    change: list[Tensor] = []
    for _ in range(niter):
        residual = A @ vectors - mass(vectors) * values
        bounds = vectors.norm(dim=0) * (sizes[0] + values.abs() * sizes[1])
        if bool((residual.norm(dim=0) <= tol * bounds)[:k].all()):
            break
        space = _orthonormal(flambeau.cat([vectors, residual if iK is None else iK @ residual, *change], 1), mass)
        values, better = _best(A, space, vectors.shape[1], largest)
        change = [better - vectors @ (vectors.mT @ mass(better))]
        vectors = better
    return values[:k], vectors[:, :k]


def _best(A: Tensor, space: Tensor, count: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The extreme eigenvalues of A within a space of orthonormal columns, best first, and their vectors."""
    projected = space.mT @ A @ space
    values, vectors = flambeau.linalg.eigh((projected + projected.mT) / 2)
    if largest:
        values, vectors = values.flip(0), vectors.flip(1)
    return values[:count], space @ vectors[:, :count]


def _orthonormal(vectors: Tensor, mass: Any) -> Tensor:
    """Columns that span the same space and are orthonormal; those that depend on others are left out. Twice, against rounding errors."""
    tiny = flambeau.finfo(vectors.dtype).eps
    for _ in range(2):
        lengths = (vectors * mass(vectors)).sum(0).clamp(min=0).sqrt()
        vectors = vectors[:, lengths > 0] / lengths[lengths > 0]
        gram = vectors.mT @ mass(vectors)
        values, directions = flambeau.linalg.eigh((gram + gram.mT) / 2)
        kept = values > tiny * vectors.shape[1] * values.amax()
        vectors = vectors @ (directions[:, kept] / values[kept].sqrt())
    return vectors
