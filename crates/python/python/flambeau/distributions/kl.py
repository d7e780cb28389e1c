"""Kullback's and Leibler's divergence of pairs of distributions, by the classes of both."""

from __future__ import annotations

import math
from functools import total_ordering

import flambeau
from flambeau import Tensor
from flambeau.distributions.combined import Independent
from flambeau.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    ContinuousBernoulli,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.gamma_family import Beta, Dirichlet, Exponential, Gamma
from flambeau.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from flambeau.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal, _batch_mahalanobis, linalg
from flambeau.distributions.transformed import Gumbel, HalfNormal, Pareto, TransformedDistribution
from flambeau.distributions.utils import _sum_rightmost, euler_constant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["kl_divergence", "register_kl"]

_REGISTRY: dict[tuple[type, type], Any] = {}
_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: the function computes the divergence of these classes and their subclasses."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"Expected a class of distributions but got {kind}")

    def decorate(function: Any) -> Any:
        _REGISTRY[type_p, type_q] = function
        _MEMOIZE.clear()
        return function

    return decorate


@total_ordering
class _Match:
    """Pairs of classes are ordered by which is closer: subclasses first."""

    def __init__(self, *types: type) -> None:
        self.types = types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Match) and self.types == other.types

    def __le__(self, other: _Match) -> bool:
        for x, y in zip(self.types, other.types):
            if not issubclass(x, y):
                return False
            if x is not y:
                break
        return True


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The function for the closest classes that both are derived from."""
    matches = [(p, q) for p, q in _REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    left = min(_Match(*m) for m in matches).types
    right = min(_Match(*reversed(m)) for m in matches).types
    if left != tuple(reversed(right)):
        import warnings

        warnings.warn(f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}).", RuntimeWarning, stacklevel=3)
    return _REGISTRY[left[0], left[1]]


def kl_divergence(p: Any, q: Any) -> Tensor:
    """The mean of `log p(x) - log q(x)` for values of `p`, in closed form."""
    key = type(p), type(q)
    if key not in _MEMOIZE:
        _MEMOIZE[key] = _dispatch_kl(*key)
    if _MEMOIZE[key] is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return _MEMOIZE[key](p, q)


def _infinite(like: Tensor) -> Tensor:
    return flambeau.full_like(like, math.inf)



@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Any, q: Any) -> Tensor:
    softplus = flambeau.nn.functional.softplus
    t1 = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    t1 = flambeau.where(q.probs == 0, math.inf, t1).masked_fill(p.probs == 0, 0)
    t2 = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return t1 + flambeau.where(q.probs == 1, math.inf, t2).masked_fill(p.probs == 1, 0)


@register_kl(Beta, Beta)
def _beta_beta(p: Any, q: Any) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    t3 = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    t4 = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return t1 - t2 + t3 + t4 + (total_q - total_p) * total_p.digamma()


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Any, q: Any) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return flambeau.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = flambeau.where((q.probs == 0).expand_as(t), math.inf, t).masked_fill((p.probs == 0).expand_as(t), 0)
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _onehot_onehot(p: Any, q: Any) -> Tensor:
    return _categorical_categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._cont_bern_log_norm() + flambeau.log1p(-p.probs)
    return t1 + t2 - q._cont_bern_log_norm() - flambeau.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Any, q: Any) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t1 = total_p.lgamma() - total_q.lgamma()
    t2 = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    t3 = (p.concentration - q.concentration) * (p.concentration.digamma() - total_p.digamma().unsqueeze(-1))
    return t1 - t2 + t3.sum(-1)


@register_kl(ExponentialFamily, ExponentialFamily)
def _expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """By a Bregman divergence, for two of the same family."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    p_natural = [x.detach().requires_grad_() for x in p._natural_params]
    q_natural = q._natural_params
    with flambeau.enable_grad():
        normalizer = p._log_normalizer(*p_natural)
        gradients = flambeau.autograd.grad(normalizer.sum(), p_natural, create_graph=True)
    result = q._log_normalizer(*q_natural) - normalizer
    for before, after, gradient in zip(p_natural, q_natural, gradients):
        result = result - _sum_rightmost((after - before) * gradient, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = q.concentration.lgamma() - p.concentration.lgamma()
    t3 = (p.concentration - q.concentration) * p.concentration.digamma()
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Any, q: Any) -> Tensor:
    ct1, ct2, ct3 = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    t1 = -ct1.log() - ct2 + ct3
    t3 = (ct2 + (1 + ct1).lgamma() - ct3).exp()
    return t1 + ct1 * euler_constant + t3 - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - flambeau.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _halfnormal_halfnormal(p: Any, q: Any) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


def _vector_trace(factor: Tensor, *matrices: Tensor) -> Tensor:
    """The sum of squares of `L^-1 M`."""
    total: Any = 0
    for matrix in matrices:
        shape = flambeau.broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
        solved = linalg.solve_triangular(factor.expand(shape + factor.shape[-2:]), matrix.expand(shape + matrix.shape[-2:]), upper=False)
        total = total + solved.pow(2).sum((-2, -1))
    return total


def _tril_of(d: Any) -> Tensor:
    return d._unbroadcasted_scale_tril if isinstance(d, MultivariateNormal) else d.scale_tril


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    of_p, of_q = _tril_of(p), _tril_of(q)
    half = of_q.diagonal(dim1=-2, dim2=-1).log().sum(-1) - of_p.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    distance = _batch_mahalanobis(of_q, q.loc - p.loc)
    return half + 0.5 * (_vector_trace(of_q, of_p) + distance - p.event_shape[0])


@register_kl(Normal, Normal)
def _normal_normal(p: Any, q: Any) -> Tensor:
    ratio, distance = (p.scale / q.scale).pow(2), ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Any, q: Any) -> Tensor:
    ratio, shapes = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - shapes.log() + shapes - 1
    return flambeau.where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return flambeau.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Any, q: Any) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * ratio.log() + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Uniform, Normal)
@register_kl(Laplace, Normal)
@register_kl(Beta, Normal)
@register_kl(Gumbel, Normal)
@register_kl(ContinuousBernoulli, Normal)
def _moments_normal(p: Any, q: Any) -> Tensor:
    """The logarithm of a normal density has a mean that depends on mean and variance only."""
    square = p.variance + (p.mean - q.loc).pow(2)
    return -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.pow(2))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    distance = p.loc - q.loc
    scaled = distance / p.scale
    mean = math.sqrt(2 / math.pi) * p.scale * (-0.5 * scaled.pow(2)).exp() + distance * flambeau.erf(math.sqrt(0.5) * scaled)
    return -p.entropy() + (2 * q.scale).log() + mean / q.scale


@register_kl(Uniform, Exponential)
@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
def _positive_exponential(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - q.rate.log() + q.rate * p.mean
    return flambeau.where(p.low < 0, math.inf, result) if isinstance(p, Uniform) else result


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return flambeau.where((q.low > 0) | (q.high < 1), math.inf, result)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Normal, Exponential)
@register_kl(Normal, Gamma)
@register_kl(Normal, Beta)
@register_kl(Normal, Uniform)
@register_kl(Gumbel, Exponential)
@register_kl(Gumbel, Gamma)
@register_kl(Gumbel, Beta)
@register_kl(Gumbel, Uniform)
@register_kl(Gumbel, Pareto)
@register_kl(Gumbel, ContinuousBernoulli)
@register_kl(Normal, Pareto)
@register_kl(Normal, ContinuousBernoulli)
@register_kl(Laplace, Pareto)
@register_kl(Laplace, ContinuousBernoulli)
@register_kl(Laplace, Exponential)
@register_kl(Laplace, Gamma)
@register_kl(Laplace, Beta)
@register_kl(Laplace, Uniform)
def _real_to_part(p: Any, q: Any) -> Tensor:
    """Infinite: there are values that the second one never has."""
    return _infinite(p.loc)


@register_kl(Exponential, Beta)
@register_kl(Exponential, Uniform)
@register_kl(Gamma, Beta)
@register_kl(Gamma, Uniform)
@register_kl(Exponential, Pareto)
@register_kl(Exponential, ContinuousBernoulli)
@register_kl(Gamma, Pareto)
@register_kl(Gamma, ContinuousBernoulli)
@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _positive_to_part(p: Any, q: Any) -> Tensor:
    """Infinite: there are values that the second one never has."""
    return _infinite(p.rate)


@register_kl(Beta, Pareto)
@register_kl(ContinuousBernoulli, Pareto)
@register_kl(Pareto, Beta)
@register_kl(Pareto, Uniform)
@register_kl(Pareto, ContinuousBernoulli)
def _share_to_part(p: Any, q: Any) -> Tensor:
    """Infinite: there are values that the second one never has."""
    return _infinite(p.mean)


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    log_x = _mean_log(p.low, p.high) / width
    log_rest = _mean_log(1 - p.high, 1 - p.low) / width
    norm = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    result = -width.log() - (q.concentration1 - 1) * log_x - (q.concentration0 - 1) * log_rest + norm
    return flambeau.where((p.high > 1) | (p.low < 0), math.inf, result)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    log_x = _mean_log(p.low, p.high) / width
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    result = -width.log() - (q.concentration - 1) * log_x + q.rate * p.mean + norm
    return flambeau.where(p.low < 0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    scaled, width = q.loc / q.scale, (p.high - p.low) / q.scale
    decay = (scaled - p.low / q.scale).exp() - (scaled - p.high / q.scale).exp()
    return -width.log() + (p.mean / q.scale - scaled) + decay / width


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    log_x = _mean_log(p.low, p.high) / width
    result = -width.log() + (q.alpha + 1) * log_x - q.alpha.log() - q.alpha * q.scale.log()
    return flambeau.where(p.low < q.support.lower_bound, math.inf, result)


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    scaled = p.scale * q.rate
    result = (p.alpha / scaled).log() - p.alpha.reciprocal() + p.alpha * scaled / (p.alpha - 1) - 1
    return result.masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    log_mean = p.scale.log() + p.alpha.reciprocal()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    result = p.alpha.log() - p.scale.log() - p.alpha.reciprocal() - 1 + norm
    result = result + (1 - q.concentration) * log_mean + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return result.masked_fill(p.alpha <= 1, math.inf)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    square = p.alpha * p.scale.pow(2) / (p.alpha - 2) - 2 * q.loc * p.mean + q.loc.pow(2)
    entropy = (p.alpha / p.scale).log() - p.alpha.reciprocal() - 1
    result = entropy + 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.pow(2))
    return result.masked_fill(p.alpha <= 2, math.inf)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    scaled, loc = p.rate * q.scale, q.loc / q.scale
    return scaled.log() - loc + scaled.reciprocal() + loc.exp() * scaled / (scaled + 1) - 1


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    scaled, loc = p.rate * q.scale, q.loc / q.scale
    shape = p.concentration
    t1 = (shape - 1) * shape.digamma() - shape.lgamma() - shape
    return t1 + scaled.log() + shape / scaled + loc.exp() * (1 + scaled.reciprocal()).pow(-shape) - loc


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    distance, ratio = (p.loc - q.loc) / q.scale, (p.scale / q.scale).pow(2)
    return distance + (-distance + 0.5 * ratio).exp() + q.scale.log() - p.entropy()


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    log_mean = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return -p.entropy() + norm - (q.concentration - 1) * log_mean + q.rate * p.mean


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - flambeau.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - flambeau.log1p(-q.probs) - q._cont_bern_log_norm()
    return flambeau.where((p.high > 1) | (p.low < 0), math.inf, result)


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """The integral of the logarithm."""
    return (_x_log_x(high) - high) - (_x_log_x(low) - low)


def _x_log_x(x: Tensor) -> Tensor:
    return flambeau.xlogy(x, x)


@register_kl(Independent, Independent)
def _independent_independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
