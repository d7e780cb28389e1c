"""Fourier transforms under the names of `torch.fft`."""

from .._flambeau import _fft

fft = _fft.fft_fft
fft2 = _fft.fft_fft2
fftfreq = _fft.fft_fftfreq
fftn = _fft.fft_fftn
fftshift = _fft.fft_fftshift
hfft = _fft.fft_hfft
hfft2 = _fft.fft_hfft2
hfftn = _fft.fft_hfftn
ifft = _fft.fft_ifft
ifft2 = _fft.fft_ifft2
ifftn = _fft.fft_ifftn
ifftshift = _fft.fft_ifftshift
ihfft = _fft.fft_ihfft
ihfft2 = _fft.fft_ihfft2
ihfftn = _fft.fft_ihfftn
irfft = _fft.fft_irfft
irfft2 = _fft.fft_irfft2
irfftn = _fft.fft_irfftn
rfft = _fft.fft_rfft
rfft2 = _fft.fft_rfft2
rfftfreq = _fft.fft_rfftfreq
rfftn = _fft.fft_rfftn

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
