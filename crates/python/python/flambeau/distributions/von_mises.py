"""The von Mises distribution of angles."""

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


class VonMises(Distribution):
    """Angles around `loc`, the closer the larger `concentration` is."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _expanded = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # The scaled Bessel function has no overflow.
        return k * (flambeau.cos(value - self.loc) - 1) - math.log(2 * math.pi) - flambeau.special.i0e(k).log()

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        """By rejection: Best and Fisher, 1979."""
        shape = self._extended_shape(sample_shape)
        with flambeau.no_grad():
            k = self.concentration.double().expand(shape)
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = flambeau.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))
            x = flambeau.zeros_like(k)
            left = flambeau.ones_like(k, dtype=flambeau.bool)
            while bool(left.any()):
                u1, u2, u3 = flambeau.rand((3, *shape), dtype=k.dtype).unbind(0)
                z = flambeau.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = left & (((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0))
                x = flambeau.where(accepted, (u3 - 0.5).sign() * f.clamp(-1, 1).acos(), x)
                left = left & ~accepted
            loc = self.loc.double()
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance."""
        return 1 - flambeau.special.i1e(self.concentration) / flambeau.special.i0e(self.concentration)
