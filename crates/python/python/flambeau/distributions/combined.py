"""Distributions that are made of others: with batch dimensions as a part of the value, and mixtures."""

from __future__ import annotations

import flambeau
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.discrete import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _sum_rightmost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Independent(Distribution):
    """The last batch dimensions of another distribution are a part of its value."""

    arg_constraints: dict[str, Any] = {}

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        cut = len(shape) - event_dim
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_part(self, value: Any, shape: Size) -> Any:
        if isinstance(value, Distribution):
            return value.expand(shape + self.event_shape[: self.reinterpreted_batch_ndims])
        return value

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Not where several values are one."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, with more dimensions."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: `mixture_distribution` chooses among the last batch dimension of `component_distribution`."""

    arg_constraints: dict[str, Any] = {}

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        batch, components = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for size1, size2 in zip(reversed(batch), reversed(components)):
            if size1 != 1 and size2 != 1 and size1 != size2:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({batch}) is not compatible with `component_distribution.batch_shape`({components})"
                )
        count = mixture_distribution.logits.shape[-1]
        if component_distribution.batch_shape[-1] != count:
            raise ValueError(f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]`")
        self._num_component, self._event_ndims = count, len(component_distribution.event_shape)
        super().__init__(components, component_distribution.event_shape, validate_args=validate_args)

    def _expand_part(self, value: Any, shape: Size) -> Any:
        if isinstance(value, Categorical):
            return value.expand(shape)
        if isinstance(value, Distribution):
            return value.expand(shape + (self._num_component,))
        return value

    @constraints.dependent_property
    def support(self) -> Any:
        """What a component takes."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The choice of the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        weights, dim = self._weights(), -1 - self._event_ndims
        inner = (weights * self._component_distribution.variance).sum(dim)
        mean = self.mean.unsqueeze(dim)
        return inner + (weights * (self._component_distribution.mean - mean).pow(2.0)).sum(dim)

    def cdf(self, x: Tensor) -> Tensor:
        cdf = self._component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (cdf * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self._component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        return flambeau.logsumexp(log_prob + self._mixture_distribution.logits.log_softmax(-1), -1)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with flambeau.no_grad():
            shape = Size(tuple(sample_shape)) + self._batch_shape
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape(shape + (1,) * (1 + self._event_ndims)).expand(shape + (1,) + self._event_shape)
            return drawn.gather(len(shape), index).squeeze(len(shape))

    def __repr__(self) -> str:
        return f"MixtureSameFamily({self._mixture_distribution}, {self._component_distribution})"
