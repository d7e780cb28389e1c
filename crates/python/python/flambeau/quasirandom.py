"""Quasirandom numbers: points that fill a cube more evenly than random ones."""

from __future__ import annotations

import os

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["SobolEngine"]

_read: list[tuple[int, int]] = []


def _table() -> list[tuple[int, int]]:
    """The polynomial and the bits of the first direction numbers of each dimension from the second."""
    if not _read:
        with open(os.path.join(os.path.dirname(__file__), "_sobol_numbers.txt"), encoding="utf-8") as file:
            lines = [line.split() for line in file if not line.startswith("#")]
        _read.extend((int(polynomial, 16), int(bits, 16)) for polynomial, bits in lines)
    return _read


def _direction_numbers(dimension: int, count: int) -> list[int]:
    """The `count` direction numbers of a dimension, counted from 0, as integers below 2^count."""
    if dimension == 0:
        return [1 << (count - 1 - at) for at in range(count)]
    polynomial, bits = _table()[dimension - 1]
    degree = polynomial.bit_length() - 1
    numbers = [1]
    left = degree * (degree - 1) // 2
    for length in range(1, degree):
        left -= length
        numbers.append((bits >> left & ((1 << length) - 1)) << 1 | 1)
    for at in range(degree, count):
        number = numbers[at - degree] ^ numbers[at - degree] << degree
        for step in range(1, degree):
            if polynomial >> (degree - step) & 1:
                number ^= numbers[at - step] << step
        numbers.append(number)
    return [number << (count - 1 - at) for at, number in enumerate(numbers[:count])]


class SobolEngine:
    """Points of a Sobol' sequence in the unit cube, after I. M. Sobol' (1967), in the order of Gray codes.

    `scramble` multiplies the binary digits by random triangular matrices and shifts them, so that each point is uniform.
    """

    MAXBIT = 30
    MAXDIM = 1111

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.num_generated = 0
        self.sobolstate = flambeau.tensor([_direction_numbers(at, self.MAXBIT) for at in range(dimension)], dtype=flambeau.int64)
        self.shift = flambeau.zeros(dimension, dtype=flambeau.int64)
        if scramble:
            self._scramble()

    def _scramble(self) -> None:
        generator = None if self.seed is None else flambeau.Generator().manual_seed(self.seed)
        shape = (self.dimension, self.MAXBIT)
        weights = 2 ** flambeau.arange(self.MAXBIT - 1, -1, -1)
        self.shift = (flambeau.randint(2, shape, generator=generator) * weights).sum(-1)
        matrices = flambeau.randint(2, (*shape, self.MAXBIT), generator=generator).tril(-1) + flambeau.eye(self.MAXBIT, dtype=flambeau.int64)
        digits = (self.sobolstate.unsqueeze(-2) // weights.unsqueeze(-1)) % 2
        self.sobolstate = ((matrices @ digits) % 2 * weights.unsqueeze(-1)).sum(-2)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: flambeau.dtype | None = None) -> Tensor:
        """The next `n` points, a row each."""
        last = self.num_generated + n
        if n < 0 or last > 2**self.MAXBIT:
            raise ValueError(f"SobolEngine.draw: expected at most {2**self.MAXBIT} points in all but got {last}")
        index = flambeau.arange(self.num_generated, last)
        codes = index ^ (index >> 1)
        points = self.shift.expand(n, self.dimension)
        for bit in range(max(last - 1, 0).bit_length()):
            points = points ^ ((codes >> bit & 1).unsqueeze(-1) * self.sobolstate[:, bit])
        self.num_generated = last
        kind = flambeau.get_default_dtype() if dtype is None else dtype
        found = (points * flambeau.tensor(2.0**-self.MAXBIT, dtype=flambeau.float64)).to(kind)
        return found if out is None else out.resize_(found.shape).copy_(found)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: flambeau.dtype | None = None) -> Tensor:
        """The next 2^m points, after which the number of all points must be a power of 2."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously "
                f"generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Begins again with the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out the next `n` points."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        options: dict[str, Any] = {"dimension": self.dimension}
        options |= {"scramble": True} if self.scramble else {}
        options |= {} if self.seed is None else {"seed": self.seed}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in options.items())})"
