"""Probability distributions, their samples, densities, transforms and divergences: torch's `distributions`."""

from __future__ import annotations

from flambeau.distributions import constraints as constraints, transforms as transforms
from flambeau.distributions.combined import Independent, MixtureSameFamily
from flambeau.distributions.constraint_registry import biject_to, transform_to
from flambeau.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    ContinuousBernoulli,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.gamma_family import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma
from flambeau.distributions.generalized_pareto import GeneralizedPareto
from flambeau.distributions.kl import kl_divergence, register_kl
from flambeau.distributions.location_scale import Cauchy, Laplace, Normal, StudentT, Uniform
from flambeau.distributions.multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from flambeau.distributions.relaxed import (
    ExpRelaxedCategorical as ExpRelaxedCategorical,
    LogitRelaxedBernoulli as LogitRelaxedBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from flambeau.distributions.transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    TransformedDistribution,
    Weibull,
)
from flambeau.distributions.transforms import *  # noqa: F403
from flambeau.distributions.von_mises import VonMises

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    *transforms.__all__,
]
