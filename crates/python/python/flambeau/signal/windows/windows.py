"""Window functions: weights of `M` points whose largest is 1.

A window is symmetric (`sym`), for the design of filters, or periodic, for Fourier transforms: the symmetric one of a point more, without
its last. Weights are computed in float64 and rounded once.
"""

from __future__ import annotations

import math

from ... import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..._flambeau import Tensor, device, dtype, layout

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _made(
    name: str,
    M: int,
    options: dict[str, Any],
    weights: Callable[[Tensor], Tensor],
    check: Callable[[], None] | None = None,
) -> Tensor:
    """The window whose weights are a function of the numbers of its points, in the type and on the device that are given."""
    dtype = options["dtype"] or _flambeau.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if options["layout"] is not _flambeau.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {options['layout']}")
    if dtype not in (_flambeau.float32, _flambeau.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if check is not None:
        check()
    numbers = _flambeau.arange(M, dtype=_flambeau.float64, device=options["device"])
    made = (weights(numbers) if M else numbers).to(dtype)
    return made.requires_grad_(True) if options["requires_grad"] else made


def _refuse(message: str | None) -> None:
    if message is not None:
        raise ValueError(message)


def _steps(M: int, sym: bool) -> int:
    """The number of steps from the first point to where the window begins again, or to its last point; 1 for a single point."""
    return max(M - 1 if sym else M, 1)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle: `1 - |2 n / N - 1|`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _made("bartlett", M, options, lambda n: _flambeau.bartlett_window(M, not sym, dtype=n.dtype, device=n.device))


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of three cosines, `0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym, options)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine, `sin(pi (n + 0.5) / N)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    period = M + 1 if not sym and M > 1 else M
    return _made("cosine", M, options, lambda n: ((n + 0.5) * (math.pi / period)).sin())


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Exponentials that fall on both sides of the center, `exp(-|n - center| / tau)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center

    def check() -> None:
        _refuse(f"Tau must be positive, got: {tau} instead." if tau <= 0 else None)
        _refuse("Center must be None for symmetric windows" if sym and center is not None else None)

    return _made("exponential", M, options, lambda n: (-(n - middle).abs() / tau).exp(), check)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A normal distribution, `exp(-(n - N / 2)^2 / (2 std^2))`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    middle = (M if not sym and M > 1 else M - 1) / 2

    def check() -> None:
        _refuse(f"Standard deviation must be positive, got: {std} instead." if std <= 0 else None)

    return _made("gaussian", M, options, lambda n: (-(((n - middle) / (std * math.sqrt(2))) ** 2)).exp(), check)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with alternating signs, `sum((-1)^i a[i] cos(2 pi i n / N))`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _cosines("general_cosine", M, a, sym, options)


def _cosines(name: str, M: int, a: Iterable[float], sym: bool, options: dict[str, Any]) -> Tensor:
    angle = 2 * math.pi / _steps(M, sym)

    def weights(n: Tensor) -> Tensor:
        if M == 1:
            return _flambeau.ones_like(n)
        if not hasattr(a, "__iter__"):
            raise TypeError("Coefficients must be a list/tuple")
        coefficients = list(a)
        _refuse(None if coefficients else "Coefficients cannot be empty")
        total = _flambeau.zeros_like(n)
        for i, coefficient in enumerate(coefficients):
            total = total + (n * (i * angle)).cos() * ((-1) ** i * coefficient)
        return total

    return _made(name, M, options, weights)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine, `alpha - (1 - alpha) cos(2 pi n / N)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _cosines("general_hamming", M, [alpha, 1.0 - alpha], sym, options)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that does not fall to 0, `0.54 - 0.46 cos(2 pi n / N)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _cosines("hamming", M, [0.54, 1.0 - 0.54], sym, options)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A raised cosine that falls to 0, `0.5 - 0.5 cos(2 pi n / N)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _cosines("hann", M, [0.5, 0.5], sym, options)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Bessel functions of a half circle, `i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta)`."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}

    def check() -> None:
        _refuse(f"beta must be non-negative, got: {beta} instead." if beta < 0 else None)

    def weights(n: Tensor) -> Tensor:
        return _flambeau.kaiser_window(M, not sym, beta, dtype=n.dtype, device=n.device)

    return _made("kaiser", M, options, weights, check)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: dtype | None = None,
    layout: layout = _flambeau.strided,
    device: device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of four cosines with little energy outside of its main lobe, by Nuttall."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return _cosines("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, options)
