"""The generalised Pareto distribution: of excesses over a threshold."""

from __future__ import annotations

import math

import flambeau
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Shapes nearer to 0 than this have the exponential distribution, the limit.
NEAR = 1e-8


class GeneralizedPareto(Distribution):
    """From `loc` on, with the scale `scale` and the tail index `concentration`; the exponential distribution at 0."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _expanded = ("loc", "scale", "concentration")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From `loc` on; with an end where the index is negative."""
        if bool((self.concentration < 0).all()):
            return constraints.interval(self.loc, self.loc - self.scale / self.concentration)
        return constraints.greater_than_eq(self.loc)

    def _is_exponential(self) -> Tensor:
        return self.concentration.abs() < NEAR

    def _index(self) -> Tensor:
        """The tail index, or 1 where it is 0, so that it can be divided by."""
        return flambeau.where(self._is_exponential(), flambeau.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        draws = flambeau.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(draws)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        index = self._index()
        power = -(1 + 1 / index) * flambeau.log1p(index * z)
        return flambeau.where(self._is_exponential(), -z, power) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        z = (value - self.loc) / self.scale
        index = self._index()
        return flambeau.where(self._is_exponential(), -z, -flambeau.log1p(index * z) / index)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of at most `value`."""
        return flambeau.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -flambeau.expm1(self.log_survival_function(value))

    def icdf(self, value: Tensor) -> Tensor:
        index = self._index()
        rest = flambeau.log1p(-value)
        return self.loc + self.scale * flambeau.where(self._is_exponential(), -rest, flambeau.expm1(-index * rest) / index)

    @property
    def mean(self) -> Tensor:
        found = self.loc + self.scale / (1 - self.concentration)
        return flambeau.where(self.concentration < 1, found, math.nan)

    @property
    def variance(self) -> Tensor:
        found = self.scale**2 / ((1 - self.concentration) ** 2 * (1 - 2 * self.concentration))
        return flambeau.where(self.concentration < 0.5, found, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
