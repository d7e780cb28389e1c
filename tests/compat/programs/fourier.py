"""Fourier transforms, short-time transforms and windows, with their gradients, as JSON."""

import json
import math
import warnings

import torch
from torch.signal import windows

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)


def signal(*sizes):
    """Numbers without a pattern."""
    n = torch.arange(math.prod(sizes))
    return ((n * n * 7 + n * 3) % 31 / 31.0 - 0.4).reshape(sizes)


def numbers(x):
    parts = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return [list(x.shape), [float(f"{part:.11g}") for part in parts.flatten().tolist()]]


def transforms():
    real = signal(2, 3, 4)
    both = torch.complex(real, real.flip(0) * 0.5)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        for x in (real, both):
            if x.is_complex() and name in ("rfft", "ihfft"):
                continue
            for norm in (None, "ortho", "forward"):
                yield f"{name} {norm}", getattr(torch.fft, name)(x, norm=norm)
                yield f"{name}n {norm}", getattr(torch.fft, name + "n")(x, norm=norm)
            yield f"{name} 5", getattr(torch.fft, name)(x, n=5, dim=1)
            yield f"{name}2", getattr(torch.fft, name + "2")(x, s=(4, 3))
            yield f"{name}n 0, 2", getattr(torch.fft, name + "n")(x, s=(-1, 5), dim=(0, 2))
    yield "integers", torch.fft.fft(torch.tensor([1, 2, 3]))
    for n in (1, 4, 5):
        yield f"fftfreq {n}", torch.fft.fftfreq(n, 0.5)
        yield f"rfftfreq {n}", torch.fft.rfftfreq(n, 0.5)
        yield f"fftshift {n}", torch.fft.fftshift(signal(n, 3))
        yield f"ifftshift {n}", torch.fft.ifftshift(signal(n, 3), dim=0)


def short_time():
    x = signal(2, 16)
    window = torch.hann_window(6) + 0.1
    for mode in ("reflect", "constant", "replicate", "circular"):
        made = torch.stft(x, 8, 3, 6, window, pad_mode=mode, return_complex=True)
        yield f"stft {mode}", made
        yield f"istft {mode}", torch.istft(made, 8, 3, 6, window, length=15)
    yield "not centered", x.stft(8, center=False, normalized=True, onesided=False, return_complex=True)
    yield "aligned", x[0].stft(8, 2, 4, center=False, return_complex=True, align_to_window=True)
    yield "pairs", torch.stft(x, 4, window=torch.ones(4), return_complex=False)
    both = torch.complex(x, x.flip(1))
    made = torch.stft(both, 6, 2, window=window)
    yield "complex", made
    yield "complex back", torch.istft(made, 6, 2, window=window, return_complex=True)


def of_windows():
    for n in (1, 2, 5):
        for periodic in (True, False):
            for name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
                yield f"{name} {n} {periodic}", getattr(torch, name + "_window")(n, periodic)
                yield f"windows.{name} {n} {periodic}", getattr(windows, name)(n, sym=not periodic)
            yield f"nuttall {n} {periodic}", windows.nuttall(n, sym=not periodic)
            yield f"cosine {n} {periodic}", windows.cosine(n, sym=not periodic)
            yield f"gaussian {n} {periodic}", windows.gaussian(n, std=2.0, sym=not periodic)
            yield f"exponential {n} {periodic}", windows.exponential(n, tau=2.0, sym=not periodic)
            yield f"general {n} {periodic}", windows.general_cosine(n, a=[0.4, 0.3, 0.3], sym=not periodic)
    yield "hamming", torch.hamming_window(6, True, 0.6, 0.3)
    yield "kaiser", torch.kaiser_window(6, False, beta=3.0)


def gradients():
    functions = {
        "fft": lambda x: torch.fft.fft(x, dim=0),
        "rfft": lambda x: torch.fft.rfft(x, n=4),
        "rfftn": lambda x: torch.fft.rfftn(x, norm="ortho"),
        "irfft": lambda x: torch.fft.irfft(x, n=7),
        "hfft2": lambda x: torch.fft.hfft2(x),
        "ihfft": lambda x: torch.fft.ihfft(x),
        "stft": lambda x: torch.stft(x, 4, 2, window=torch.hann_window(4), return_complex=True),
    }
    for name, function in functions.items():
        x = signal(3, 5).requires_grad_(True)
        y = function(x)
        (y.abs() ** 2 * signal(*y.shape)).sum().backward()
        yield name, x.grad


def refusals():
    x = torch.ones(3)
    calls = (
        lambda: torch.fft.fft(x, n=0),
        lambda: torch.fft.fft(x, norm="unit"),
        lambda: torch.fft.fft(x, dim=1),
        lambda: torch.fft.fft(torch.tensor(1.0)),
        lambda: torch.fft.fft2(x),
        lambda: torch.fft.fft2(torch.ones(3, 3), s=(1,)),
        lambda: torch.fft.fftn(torch.ones(3, 3), dim=(0, 0)),
        lambda: torch.fft.fft(x.half()),
        lambda: torch.fft.fftfreq(4, dtype=torch.int64),
        lambda: torch.stft(x, 2),
        lambda: torch.hann_window(-1),
        lambda: windows.hann(-1),
        lambda: windows.gaussian(3, std=0.0),
    )
    for call in calls:
        try:
            call()
            yield None
        except Exception as error:
            yield type(error).__name__


found = {}
for part in (transforms, short_time, of_windows, gradients):
    found[part.__name__] = [[name, numbers(x)] for name, x in part()]
print(json.dumps({**found, "refusals": list(refusals())}))
