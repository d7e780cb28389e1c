"""Distributions of vectors and matrices: normal vectors, Wishart's matrices, correlations."""

from __future__ import annotations

import math

import flambeau
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.gamma_family import Beta, Chi2
from flambeau.distributions.utils import _standard_normal, lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

linalg: Any = flambeau.linalg


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """The squares of the lengths of `L^-1 x`, for lower triangular matrices and vectors that broadcast."""
    shape = flambeau.broadcast_shapes(bL.shape[:-2], bx.shape[:-1])
    solved = linalg.solve_triangular(bL.expand(shape + bL.shape[-2:]), bx.expand(shape + bx.shape[-1:]).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix."""
    flipped = linalg.cholesky(P.flip((-2, -1)))
    inverse = flipped.flip((-2, -1)).mT
    identity = flambeau.eye(P.shape[-1], dtype=P.dtype).expand(P.shape)
    return linalg.solve_triangular(inverse, identity, upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors, by their mean and one of covariance, precision and Cholesky factor of the covariance."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _expanded = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        there = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(there) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = there.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = flambeau.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch + (-1, -1)))
        self.loc = loc.expand(batch + (-1,))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = super().expand(batch_shape, _instance)
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return made

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        L = self._unbroadcasted_scale_tril
        return (L @ L.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        L = self._unbroadcasted_scale_tril
        inverse = linalg.solve_triangular(L, flambeau.eye(L.shape[-1], dtype=L.dtype).expand(L.shape), upper=False)
        return (inverse.mT @ inverse).expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        half = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return half.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is `W W^T` plus a diagonal."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _expanded = ("loc", "cov_factor", "cov_diag")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != loc.shape[-1:]:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {loc.shape[-1]} x m")
        if cov_diag.shape[-1:] != loc.shape[-1:]:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        batch = flambeau.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand(batch + (-1,)), cov_diag.expand(batch + (-1,))
        self.cov_factor = cov_factor.expand(batch + (-1, -1))
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)

    def _capacitance_tril(self) -> Tensor:
        """The Cholesky factor of `I + W^T D^-1 W`."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        matrix = scaled @ self.cov_factor
        return linalg.cholesky(matrix + flambeau.eye(matrix.shape[-1], dtype=matrix.dtype))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by Woodbury's formula."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        a = linalg.solve_triangular(self._capacitance_tril(), scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - a.mT @ a

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        low = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        noise = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + (self.cov_factor @ low.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * noise

    def _log_det(self, tril: Tensor) -> Tensor:
        return 2 * tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diff, tril = value - self.loc, self._capacitance_tril()
        projected = ((self.cov_factor.mT / self.cov_diag.unsqueeze(-2)) @ diff.unsqueeze(-1)).squeeze(-1)
        distance = (diff.pow(2) / self.cov_diag).sum(-1) - _batch_mahalanobis(tril, projected)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det(tril) + distance)

    def entropy(self) -> Tensor:
        half = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det(self._capacitance_tril()))
        return half.expand(self._batch_shape)


class LKJCholesky(Distribution):
    """Cholesky factors of matrices of correlations: Lewandowski, Kurowicka and Joe, 2009, by onions."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expanded = ("concentration",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration = flambeau.as_tensor(concentration, dtype=getattr(concentration, "dtype", flambeau.get_default_dtype()))
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with flambeau.no_grad():
            marginal = self.concentration + 0.5 * (self.dim - 2)
            offset = flambeau.arange(self.dim - 1, dtype=self.concentration.dtype)
            offset = flambeau.cat([offset.new_zeros((1,)), offset])
            y = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset, validate_args=False).sample(sample_shape).unsqueeze(-1)
            normal = flambeau.randn(self._extended_shape(sample_shape), dtype=y.dtype).tril(-1)
            sphere = normal / flambeau.linalg.vector_norm(normal, dim=-1, keepdim=True)
            sphere[..., 0, :].fill_(0.0)
            w = y.sqrt() * sphere
            tiny = flambeau.finfo(w.dtype).tiny
            return w + (1 - (w**2).sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = flambeau.arange(2, self.dim + 1, dtype=value.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        denominator = alpha.lgamma() * less
        numerator = flambeau.mvlgamma(alpha - 0.5, less)
        return unnormalized - (0.5 * less * math.log(math.pi) + numerator - denominator)


class Wishart(ExponentialFamily):
    """Wishart's distribution of positive definite matrices, by Bartlett's decomposition."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _expanded = ("df", "covariance_matrix", "precision_matrix", "scale_tril")
    arg_constraints = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        there = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(there) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, param),) = there.items()
        if param.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = flambeau.as_tensor(df, dtype=param.dtype)
        batch = flambeau.broadcast_shapes(param.shape[:-2], df.shape)
        self.df = df.expand(batch)
        setattr(self, name, param.expand(batch + (-1, -1)))
        if bool(self.df.le(param.shape[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {param.shape[-1] - 1}.")
        super().__init__(batch, param.shape[-2:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = param
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(param)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(param)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = super().expand(batch_shape, _instance)
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return made

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        L = self._unbroadcasted_scale_tril
        return (L @ L.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        L = self._unbroadcasted_scale_tril
        inverse = linalg.solve_triangular(L, flambeau.eye(L.shape[-1], dtype=L.dtype).expand(L.shape), upper=False)
        return (inverse.mT @ inverse).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = (self.df - self.covariance_matrix.shape[-1] - 1).masked_fill(self.df <= self._event_shape[-1] + 1, math.nan)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (V.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Any = Size(), max_try_correction: Any = None) -> Tensor:
        p = self._event_shape[-1]
        shape = Size(tuple(sample_shape)) + self._batch_shape
        counts = self.df.unsqueeze(-1) - flambeau.arange(p, dtype=self.df.dtype)
        diagonal = Chi2(counts, validate_args=False).rsample(sample_shape).sqrt()
        noise = diagonal.diag_embed() + flambeau.randn(shape + (p, p), dtype=self.df.dtype).tril(-1)
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        half_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value_det = 2 * linalg.cholesky(value).diagonal(dim1=-2, dim2=-1).log().sum(-1)
        solved = linalg.solve_triangular(self.scale_tril, value, upper=False)
        trace = linalg.solve_triangular(self.scale_tril.mT, solved, upper=True).diagonal(dim1=-2, dim2=-1).sum(-1)
        norm = nu * (half_det + p * math.log(2) / 2) + flambeau.mvlgamma(nu / 2, p)
        return -norm + (nu - p - 1) / 2 * value_det - trace / 2

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        half_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        digamma = ((nu / 2).unsqueeze(-1) - flambeau.arange(p, dtype=nu.dtype) / 2).digamma().sum(-1)
        first = (p + 1) * (half_det + p * math.log(2) / 2) + flambeau.mvlgamma(nu / 2, p)
        return first - (nu - p - 1) / 2 * digamma + nu * p / 2
