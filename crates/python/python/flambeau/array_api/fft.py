"""The extension `fft` of the standard."""

from __future__ import annotations

import flambeau.fft as _torch
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flambeau import device as Device, dtype as DType

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The Fourier transform along an axis."""
    return _torch.fft(x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse Fourier transform along an axis."""
    return _torch.ifft(x, n, axis, norm)


def _of_several(
    name: str, transform: Callable[..., Tensor], x: Tensor, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str
) -> Tensor:
    if s is not None and axes is None:
        raise ValueError(f"{name}: expected axes for the sizes s={tuple(s)}")
    return transform(x, None if s is None else list(s), None if axes is None else list(axes), norm)


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The Fourier transform along several axes; a size of -1 is that of `x`."""
    return _of_several("fftn", _torch.fftn, x, s, axes, norm)


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The inverse Fourier transform along several axes; a size of -1 is that of `x`."""
    return _of_several("ifftn", _torch.ifftn, x, s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The half of the Fourier transform of real numbers that determines the other."""
    return _torch.rfft(x, n, axis, norm)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real numbers of which `rfft` gives `x`."""
    return _torch.irfft(x, n, axis, norm)


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The Fourier transform of real numbers along several axes, half of it along the last one."""
    return _of_several("rfftn", _torch.rfftn, x, s, axes, norm)


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Tensor:
    """The real numbers of which `rfftn` gives `x`."""
    return _of_several("irfftn", _torch.irfftn, x, s, axes, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real Fourier transform of half of a Hermitian sequence."""
    return _torch.hfft(x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """Half of the Hermitian sequence of which `hfft` gives `x`."""
    return _torch.ihfft(x, n, axis, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """The frequencies of `fft` for `n` samples at distances `d`."""
    return _torch.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DType | None = None, device: Device | str | None = None) -> Tensor:
    """The frequencies of `rfft` for `n` samples at distances `d`."""
    return _torch.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 in the middle of all axes or some."""
    return _torch.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The order before `fftshift`."""
    return _torch.ifftshift(x, axes)
