"""Distributions of the exponential family, whose entropy follows from the logarithm of their normaliser."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.distributions.distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ExponentialFamily(Distribution):
    """The density is `exp(<t(x), theta> - F(theta) + k(x))`, with natural parameters `theta`."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """By a Bregman divergence: the normaliser and its gradient."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with flambeau.enable_grad():
            normalizer = self._log_normalizer(*params)
            gradients = flambeau.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, gradient in zip(params, gradients):
            part = param * gradient
            result = result - part.reshape(self._batch_shape + (-1,)).sum(-1)
        return result
