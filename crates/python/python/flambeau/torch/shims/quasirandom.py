"""torch.quasirandom: points of Sobol's sequence, by SciPy, which has the direction numbers of Joe and Kuo that PyTorch has too."""

from __future__ import annotations

import warnings

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SobolEngine:
    """Draws points of a Sobol sequence one after another. With `scramble` they are shuffled by `seed`, or at random, as SciPy does it:
    such points are other ones than PyTorch's."""

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._sequence = _sequence(dimension, self.MAXBIT, scramble, seed)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, one in each row."""
        if n < 0:
            raise ValueError(f"SobolEngine.draw: expected n of at least 0 but got {n}")
        with warnings.catch_warnings():
            # SciPy warns of numbers of points that are no powers of 2.
            warnings.simplefilter("ignore")
            points = self._sequence.random(n)
        result = flambeau.from_numpy(points).to(dtype or flambeau.get_default_dtype())
        self.num_generated += n
        return result if out is None else out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next `2**m` points, if the number of all points is a power of 2 then."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously "
                f"generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()' "
                "instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Goes back to the first point."""
        self._sequence.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out the next `n` points."""
        if n > 0:
            self._sequence.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


def _sequence(dimension: int, bits: int, scramble: bool, seed: int | None) -> Any:
    try:
        from numpy.random import default_rng
        from scipy.stats import qmc
    except ImportError as error:
        raise ImportError("SobolEngine needs SciPy, whose table of direction numbers it reads: pip install scipy") from error
    if not scramble:
        return qmc.Sobol(dimension, scramble=False, bits=bits)
    if seed is None:
        seed = int(flambeau.randint(2**31, ()).item())
    return qmc.Sobol(dimension, scramble=True, bits=bits, rng=default_rng(seed))
