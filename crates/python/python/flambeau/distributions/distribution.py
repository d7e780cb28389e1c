"""The base of all distributions."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import Size, Tensor
from flambeau.distributions import constraints
from flambeau.distributions.utils import lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Distribution:
    """A distribution of values of sizes `event_shape`, one for each of `batch_shape`."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    # Attributes that begin with the sizes of the batch, which `expand` expands.
    _expanded: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked from now on."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = Size(), event_shape: Any = Size(), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the "
                "distribution with `validate_args=False` to disable validation.",
                stacklevel=3,
            )
        for param, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if param not in self.__dict__ and isinstance(getattr(type(self), param), lazy_property):
                continue
            value = getattr(self, param)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {param} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same with a batch of these sizes, whose parameters share their elements."""
        made = self._get_checked_instance(Distribution, _instance)
        shape = Size(batch_shape)
        for name in self._expanded:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                made.__dict__[name] = value.expand(shape + value.shape[len(self._batch_shape) :])
        for name, value in self.__dict__.items():
            if name not in made.__dict__ and name not in ("_batch_shape", "_event_shape") and not isinstance(value, Tensor):
                made.__dict__[name] = self._expand_part(value, shape)
        made._batch_shape, made._event_shape = shape, self._event_shape
        return made

    def _expand_part(self, value: Any, shape: Size) -> Any:
        """Distributions that this one is made of are expanded with it."""
        if isinstance(value, Distribution):
            return value.expand(shape + value.batch_shape[len(self._batch_shape) :])
        return value

    @property
    def batch_shape(self) -> Size:
        """The sizes of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The sizes of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The set that each parameter is in."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set that values are in."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of the largest density."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        """Values, without history."""
        with flambeau.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        """Values that are differentiable functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` values."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of values."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of less or the same."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = Size()) -> Size:
        return Size(tuple(sample_shape)) + self._batch_shape + self._event_shape

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Values along a new first dimension, for all of the batch if `expand`."""
        made = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return made.expand((-1, *self._batch_shape)) if expand else made

    def _validate_sample(self, value: Any) -> None:
        """Raises ValueError unless `value` may be one of this distribution."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        first = len(value.shape) - len(self._event_shape)
        if value.shape[first:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        for i, j in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {self._batch_shape + self._event_shape}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the distribution "
                "with `validate_args=False` to disable validation.",
                stacklevel=3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parts = [f"{p}: {self.__dict__[p] if self.__dict__[p].numel() == 1 else self.__dict__[p].size()}" for p in names]
        return f"{self.__class__.__name__}({', '.join(parts)})"
