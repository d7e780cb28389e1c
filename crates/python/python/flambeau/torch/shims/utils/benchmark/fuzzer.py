"""Tensors of random sizes, by which a statement is timed for many inputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import flambeau


class ParameterAlias:
    """In a distribution: the value of another parameter."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A parameter, and how its values are drawn: from `minval` to `maxval`, or from the keys of a dict of probabilities."""

    def __init__(self, name: str, minval: Any = None, maxval: Any = None, distribution: Any = None, strict: bool = False) -> None:
        if distribution is None:
            raise ValueError("distribution must be given")
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        if isinstance(distribution, str) and distribution not in ("loguniform", "uniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        if isinstance(distribution, dict) and not math.isclose(sum(distribution.values()), 1.0, rel_tol=1e-6):
            raise AssertionError("the probabilities of a distribution must have the sum 1")
        self._distribution = distribution

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def sample(self, state: Any) -> Any:
        """A value, by NumPy's generator."""
        if isinstance(self._distribution, dict):
            keys = list(self._distribution)
            return keys[int(state.choice(len(keys), p=list(self._distribution.values())))]
        if self._distribution == "loguniform":
            drawn = int(2 ** state.uniform(math.log2(self._minval), math.log2(self._maxval)))
            return min(max(drawn, self._minval), self._maxval)
        if isinstance(self._minval, int) and isinstance(self._maxval, int):
            return int(state.randint(low=self._minval, high=self._maxval + 1))
        return state.uniform(low=self._minval, high=self._maxval)


class FuzzedTensor:
    """A tensor whose sizes are parameters; its dimensions may be in another order, with steps."""

    def __init__(
        self,
        name: str,
        size: tuple[Any, ...],
        steps: tuple[Any, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Any = None,
        cuda: bool = False,
        tensor_constructor: Callable[..., Any] | None = None,
    ) -> None:
        if cuda:
            raise RuntimeError("FuzzedTensor: there is no CUDA device")
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous, self._dim_parameter = probability_contiguous, dim_parameter
        self._min, self._max = min_elements, max_elements
        self._bytes, self._dtype, self._constructor = max_allocation_bytes, dtype or flambeau.float32, tensor_constructor

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def _known(self, values: tuple[Any, ...], params: dict[str, Any]) -> list[int]:
        count = params[self._dim_parameter] if self._dim_parameter is not None else len(values)
        return [params[value] if isinstance(value, str) else value for value in values[:count]]

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the tensor is neither too small nor too large."""
        sizes = self._known(self._size, params)
        steps = self._known(self._steps, params) if self._steps is not None else [1] * len(sizes)
        elements = math.prod(sizes)
        whole = math.prod(size * step for size, step in zip(sizes, steps)) * self._dtype.itemsize
        return (
            (self._min is None or elements >= self._min)
            and (self._max is None or elements <= self._max)
            and (self._bytes is None or whole <= self._bytes)
        )

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[Any, dict[str, Any]]:
        sizes = self._known(self._size, params)
        steps = self._known(self._steps, params) if self._steps is not None else [1] * len(sizes)
        whole = [size * step for size, step in zip(sizes, steps)]
        order = list(range(len(sizes)))
        if state.rand() > self._probability_contiguous and len(sizes) > 1:
            order = [int(axis) for axis in state.permutation(len(sizes))]
        made = self._constructed([whole[axis] for axis in order], params)
        tensor = made.permute([order.index(axis) for axis in range(len(sizes))])[tuple(slice(None, None, step) for step in steps)]
        properties = {
            "numel": tensor.numel(), "order": order, "steps": steps, "is_contiguous": tensor.is_contiguous(), "dtype": str(self._dtype),
        }
        return tensor, properties

    def _constructed(self, sizes: list[int], params: dict[str, Any]) -> Any:
        if self._constructor is not None:
            return self._constructor(size=sizes, dtype=self._dtype, **params)
        if self._dtype.is_floating_point or self._dtype.is_complex:
            return flambeau.rand(sizes, dtype=self._dtype)
        return flambeau.randint(0, 2 if self._dtype == flambeau.bool else 127, sizes, dtype=self._dtype)


class Fuzzer:
    """Draws parameters and tensors together, again where they break a constraint."""

    def __init__(self, parameters: Any, tensors: Any, constraints: list[Callable[..., bool]] | None = None, seed: int | None = None) -> None:
        import os

        self._parameters, self._tensors = list(_flat(parameters)), list(_flat(tensors))
        self._constraints = constraints or []
        self._seed = int.from_bytes(os.urandom(4), "little") if seed is None else seed
        names = [item.name for item in (*self._parameters, *self._tensors)]
        if len(set(names)) != len(names):
            raise ValueError(f"Duplicate names: {names}")
        self._drawn = self._rejected = 0

    @property
    def rejection_rate(self) -> float:
        """Which share of the draws broke a constraint."""
        return self._rejected / self._drawn if self._drawn else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """`n` times the tensors by name, what is known of them, and the parameters."""
        import numpy

        state = numpy.random.RandomState(self._seed)
        for _ in range(n):
            params = self._draw(state)
            made = {tensor.name: tensor._make_tensor(params, state) for tensor in self._tensors}
            yield {name: x for name, (x, _) in made.items()}, {name: known for name, (_, known) in made.items()}, params

    def _draw(self, state: Any) -> dict[str, Any]:
        for _ in range(1000):
            params: dict[str, Any] = {parameter.name: parameter.sample(state) for parameter in self._parameters}
            for name, value in params.items():
                while isinstance(value, ParameterAlias):
                    value = params[value.alias_to]
                params[name] = value
            self._drawn += 1
            if all(check(**params) for check in self._constraints) and all(tensor.satisfies_constraints(params) for tensor in self._tensors):
                return params
            self._rejected += 1
        raise ValueError("Failed to generate a set of valid parameters.")


def _flat(items: Any) -> Iterator[Any]:
    return functools.reduce(lambda found, item: iter([*found, *(_flat(item) if isinstance(item, (list, tuple)) else [item])]), items, iter(()))
