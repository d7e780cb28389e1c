"""Fourier transforms against NumPy's, short-time transforms, and window functions."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as fl
from flambeau.signal import windows

RANDOM = np.random.default_rng(0)
NORMS = (None, "backward", "ortho", "forward")


def drawn(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    parts = RANDOM.normal(size=(*shape, 2))
    values = parts[..., 0] + 1j * parts[..., 1] if dtype.startswith("complex") else parts[..., 0]
    return values.astype(dtype)


def agree(got: fl.Tensor, expected: np.ndarray, dtype: str) -> None:
    """Within a few units of the last digit of the largest element."""
    assert got.shape == expected.shape
    eps = np.finfo(np.float32 if dtype in ("float32", "complex64") else np.float64).eps
    if expected.size:
        assert np.abs(got.numpy() - expected).max() <= 50 * eps * max(np.abs(expected).max(), 1e-30)


REAL, COMPLEX = ("float64", "float32"), ("complex128", "complex64")
TAKEN = {
    "fft": REAL + COMPLEX, "ifft": REAL + COMPLEX, "rfft": REAL, "irfft": REAL + COMPLEX, "hfft": REAL + COMPLEX, "ihfft": REAL,
    "fft2": REAL + COMPLEX, "ifft2": REAL + COMPLEX, "rfft2": REAL, "irfft2": REAL + COMPLEX,
    "fftn": REAL + COMPLEX, "ifftn": REAL + COMPLEX, "rfftn": REAL, "irfftn": REAL + COMPLEX,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in TAKEN if name.endswith("fft")])
def test_transforms_of_one_dimension_are_numpys(name):
    for dtype in TAKEN[name]:
        for shape, dim in (((12,), -1), ((3, 7), 1), ((8, 3), 0), ((2, 5, 4), 1), ((2, 0, 6), 2)):
            x = drawn(shape, dtype)
            for n in (None, 1, 2, 5, 6, 16):
                for norm in NORMS:
                    got = getattr(fl.fft, name)(fl.from_numpy(x), n=n, dim=dim, norm=norm)
                    agree(got, getattr(np.fft, name)(x, n=n, axis=dim, norm=norm), dtype)
                    assert got.is_contiguous()


@pytest.mark.parametrize("name", [name for name in TAKEN if not name.endswith("fft")])
def test_transforms_of_several_dimensions_are_numpys(name):
    given = [(None, None), (None, (0, 1)), ((4, 3), (1, 2)), ((2, 6), (2, 0)), ((5, 2), (-1, -2))]
    given += [(None, (1,)), ((3,), (2,)), (None, (2, 1, 0))] if name.endswith("n") else []
    for dtype in TAKEN[name]:
        for shape in ((3, 4, 5), (2, 6, 8)):
            x = drawn(shape, dtype)
            for s, dim in given:
                for norm in NORMS:
                    options = {"norm": norm} | ({} if s is None else {"s": s})
                    got = getattr(fl.fft, name)(fl.from_numpy(x), **options, **({} if dim is None else {"dim": dim}))
                    expected = getattr(np.fft, name)(x, **options, **({} if dim is None else {"axes": dim}))
                    agree(got, expected, dtype)


def test_hermitian_transforms_of_several_dimensions():
    """NumPy has none: the last dimension by `hfft`, the others by `fft`, and back."""
    for norm in NORMS:
        x = drawn((3, 4, 5), "complex128")
        along = np.fft.fftn(x, axes=(0, 1), norm=norm)
        expected = np.fft.hfft(along, n=7, axis=2, norm=norm)
        agree(fl.fft.hfftn(fl.from_numpy(x), s=(3, 4, 7), norm=norm), expected, "complex128")
        along = np.fft.fft(x, axis=1, norm=norm)
        agree(fl.fft.hfft2(fl.from_numpy(x), norm=norm), np.fft.hfft(along, axis=2, norm=norm), "complex128")
        real = drawn((3, 4, 5), "float64")
        half = np.fft.ihfft(real, axis=2, norm=norm)
        agree(fl.fft.ihfft2(fl.from_numpy(real), norm=norm), np.fft.ifft(half, axis=1, norm=norm), "float64")
        agree(fl.fft.ihfftn(fl.from_numpy(real), norm=norm), np.fft.ifftn(half, axes=(0, 1), norm=norm), "float64")


@pytest.mark.parametrize("n", [*range(1, 71), 97, 128, 243, 509, 1000])
def test_every_length(n):
    z, x = drawn((n,), "complex128"), drawn((n,), "float64")
    agree(fl.fft.fft(fl.from_numpy(z)), np.fft.fft(z), "complex128")
    agree(fl.fft.rfft(fl.from_numpy(x)), np.fft.rfft(x), "float64")
    agree(fl.fft.irfft(fl.fft.rfft(fl.from_numpy(x)), n), x, "float64")
    agree(fl.fft.fft(fl.from_numpy(x)), np.fft.fft(x), "float64")


def largest_factor(n: int) -> int:
    """The largest prime that divides n."""
    factor, largest = 2, 1
    while factor * factor <= n:
        while n % factor == 0:
            n, largest = n // factor, factor
        factor += 1
    return max(n, largest)


LENGTHS = (*range(1, 1101), 1499, 2039, 3 * 1000, 4093, 2**12, 8191, 31397, 60_000, 99_991, 2**16, 2**20)


@pytest.mark.parametrize("part", range(4))
def test_errors_are_a_few_eps(part):
    """Against NumPy's transforms of long double numbers, in the Euclidean norm: 4 eps, or 10 where a large prime divides the length."""
    for n in LENGTHS[part::4]:
        z = drawn((n,), "complex128")
        for dtype, eps in (("complex128", np.finfo(np.float64).eps), ("complex64", np.finfo(np.float32).eps)):
            x = z.astype(dtype)
            real = x.real.copy()
            calls = [("fft", x), ("ifft", x), ("rfft", real), ("irfft", x)]
            # All four of few lengths, since the references take their time.
            for name, taken in calls if n <= 100 else calls[n % 4 :: 4]:
                options = {"n": n} if name == "irfft" else {}
                expected = getattr(np.fft, name)(taken.astype(np.clongdouble if taken is x else np.longdouble), **options)
                got = getattr(fl.fft, name)(fl.from_numpy(taken), **options).numpy()
                error, size = np.linalg.norm((got - expected).astype(complex)), np.linalg.norm(expected.astype(complex))
                bound = 4 if largest_factor(n) <= 13 else 10
                assert error <= bound * eps * size, f"{name} of {n} in {dtype}: {error / size}"


def test_integers_become_complex_numbers():
    for dtype in (fl.bool, fl.uint8, fl.int32, fl.int64):
        x = fl.tensor([1, 0, 1, 1], dtype=dtype)
        got = fl.fft.fft(x)
        assert got.dtype == fl.complex64
        np.testing.assert_allclose(got.numpy(), np.fft.fft([1, 0, 1, 1]), atol=1e-6)
    fl.set_default_dtype(fl.float64)
    try:
        assert fl.fft.rfft(fl.tensor([1, 2])).dtype == fl.complex128
    finally:
        fl.set_default_dtype(fl.float32)
    for dtype in (fl.float16, fl.bfloat16):
        with pytest.raises(NotImplementedError, match="Unsupported dtype"):
            fl.fft.fft(fl.ones(3, dtype=dtype))


def test_frequencies_and_shifts():
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.1):
            np.testing.assert_allclose(fl.fft.fftfreq(n, d, dtype=fl.float64).numpy(), np.fft.fftfreq(n, d), rtol=1e-15)
            np.testing.assert_allclose(fl.fft.rfftfreq(n, d, dtype=fl.float64).numpy(), np.fft.rfftfreq(n, d), rtol=1e-15)
    assert fl.fft.fftfreq(4, requires_grad=True).requires_grad
    x = np.arange(24).reshape(2, 3, 4)
    for dim in (None, 0, (1, 2), (-1,)):
        np.testing.assert_array_equal(fl.fft.fftshift(fl.from_numpy(x), dim=dim).numpy(), np.fft.fftshift(x, axes=dim))
        np.testing.assert_array_equal(fl.fft.ifftshift(fl.from_numpy(x), dim=dim).numpy(), np.fft.ifftshift(x, axes=dim))


def test_what_is_refused():
    x, z = fl.ones(3, 4), fl.ones(3, 4, dtype=fl.complex64)
    refused = [
        (lambda: fl.fft.fft(x, n=0), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: fl.fft.irfft(fl.ones(1)), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: fl.fft.fft(x, norm="unit"), RuntimeError, 'Invalid normalization mode: "unit"'),
        (lambda: fl.fft.rfft(z), RuntimeError, "rfft expects a real input tensor, but got"),
        (lambda: fl.fft.rfftn(z), RuntimeError, "rfftn expects a real-valued input tensor, but got"),
        (lambda: fl.fft.rfftn(fl.tensor(1.0)), RuntimeError, "rfftn must transform at least one axis"),
        (lambda: fl.fft.fft(fl.tensor(1.0)), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
        (lambda: fl.fft.fft(x, dim=2), IndexError, "imension out of range"),
        (lambda: fl.fft.fft2(x, s=(1,)), RuntimeError, "When given, dim and shape arguments must have the same length"),
        (lambda: fl.fft.fftn(x, s=(1, 2, 3)), RuntimeError, "Got shape with 3 values but input tensor only has 2 dimensions"),
        (lambda: fl.fft.fftn(x, dim=(0, -2)), RuntimeError, "FFT dims must be unique"),
        (lambda: fl.fft.fft(x, out=fl.empty(3, 4)), RuntimeError, "can't be cast"),
        (lambda: fl.fft.fftfreq(4, dtype=fl.int64), RuntimeError, "requires a floating point or complex dtype"),
        (lambda: fl.stft(x, 4), RuntimeError, "requires the return_complex parameter be given for real inputs"),
        (lambda: fl.stft(x, 4, align_to_window=True, return_complex=True), RuntimeError, "should only be set when center = false"),
        (lambda: fl.hann_window(-1), RuntimeError, "requires non-negative window_length"),
        (lambda: windows.hann(-1), ValueError, "hann requires non-negative window length, got M=-1"),
        (lambda: windows.kaiser(3, beta=-1.0), ValueError, "beta must be non-negative"),
        (lambda: windows.gaussian(3, std=0.0), ValueError, "Standard deviation must be positive"),
        (lambda: windows.exponential(3, tau=0.0), ValueError, "Tau must be positive"),
        (lambda: windows.exponential(3, center=1.0), ValueError, "Center must be None for symmetric windows"),
        (lambda: windows.general_cosine(3, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: windows.bartlett(3, dtype=fl.float16), ValueError, "expects float32 or float64 dtypes"),
    ]
    for call, kind, words in refused:
        with pytest.raises(kind, match=words):
            call()


def test_results_are_written_to_out():
    x = fl.randn(4, 5)
    out = fl.empty(0, dtype=fl.complex64)
    assert fl.fft.rfft(x, out=out) is out and fl.equal(out, fl.fft.rfft(x))
    wide = fl.empty(0, dtype=fl.complex128)
    fl.fft.fft2(x, out=wide)
    assert fl.equal(wide, fl.fft.fft2(x).to(fl.complex128))


def test_gradients():
    x = fl.randn(3, 6, dtype=fl.float64, requires_grad=True)
    energy = fl.fft.rfft(x, norm="ortho").abs().square()
    weights = fl.tensor([1.0, 2.0, 2.0, 1.0], dtype=fl.float64)
    (energy * weights).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy(), rtol=1e-12)


def windows_of(x: np.ndarray, n_fft: int, hop: int, window: np.ndarray) -> np.ndarray:
    frames = np.stack([x[..., at : at + n_fft] * window for at in range(0, x.shape[-1] - n_fft + 1, hop)], axis=-2)
    return np.swapaxes(np.fft.fft(frames, axis=-1), -1, -2)


def test_short_time_transforms():
    for shape in ((40,), (3, 40)):
        x = drawn(shape, "float64")
        for n_fft, hop, win in ((8, 2, 8), (10, 3, 7), (16, 16, 16)):
            window = windows.hamming(win, sym=False, dtype=fl.float64)
            left = (n_fft - win) // 2
            padded = np.pad(window.numpy(), (left, n_fft - win - left))
            for mode, numpys in (("reflect", "reflect"), ("constant", "constant"), ("replicate", "edge"), ("circular", "wrap")):
                around = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=numpys)
                got = fl.stft(fl.from_numpy(x), n_fft, hop, win, window, pad_mode=mode, onesided=False, return_complex=True)
                np.testing.assert_allclose(got.numpy(), windows_of(around, n_fft, hop, padded), atol=1e-12)
            got = fl.from_numpy(x).stft(n_fft, hop, win, window, center=False, normalized=True, return_complex=True)
            expected = windows_of(x, n_fft, hop, padded)[..., : n_fft // 2 + 1, :] / np.sqrt(n_fft)
            np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
            pairs = fl.stft(fl.from_numpy(x), n_fft, hop, win, window, center=False, normalized=True, return_complex=False)
            np.testing.assert_allclose(pairs.numpy(), np.stack([expected.real, expected.imag], -1), atol=1e-12)


def test_short_time_transforms_have_an_inverse():
    x = fl.randn(2, 50, dtype=fl.float64)
    window = fl.hann_window(12, dtype=fl.float64)
    spectra = fl.stft(x, 12, 3, window=window, return_complex=True)
    np.testing.assert_allclose(fl.istft(spectra, 12, 3, window=window, length=50).numpy(), x.numpy(), atol=1e-13)
    assert fl.istft(spectra, 12, 3, window=window, length=70).shape == (2, 70)
    assert spectra.istft(12, 3, window=window).shape == (2, 48)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        fl.istft(spectra, 12, 3, window=fl.zeros(12, dtype=fl.float64))
    z = fl.randn(30, dtype=fl.complex128)
    made = fl.stft(z, 8, 2, window=fl.ones(8, dtype=fl.complex128))
    back = fl.istft(made, 8, 2, window=fl.ones(8, dtype=fl.complex128), length=30, return_complex=True)
    np.testing.assert_allclose(back.numpy(), z.numpy(), atol=1e-13)


def points(M: int, sym: bool) -> tuple[np.ndarray, int]:
    return np.arange(M), (M - 1 if sym else M) or 1


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("M", [0, 1, 2, 3, 8, 51])
def test_windows_are_what_they_say(M, sym):
    n, N = points(M, sym)
    angle = 2 * np.pi * n / N
    middle = (M if not sym and M > 1 else M - 1) / 2
    one = np.ones(M)
    expected = {
        "bartlett": 1 - np.abs(2 * n / N - 1),
        "blackman": 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle),
        "hamming": 0.54 - 0.46 * np.cos(angle),
        "hann": 0.5 - 0.5 * np.cos(angle),
        "nuttall": 0.3635819 - 0.4891775 * np.cos(angle) + 0.1365995 * np.cos(2 * angle) - 0.0106411 * np.cos(3 * angle),
        "kaiser": np.i0(12 * np.sqrt(np.maximum(1 - (2 * n / N - 1) ** 2, 0))) / np.i0(12.0),
    }
    for name, values in expected.items():
        got = getattr(windows, name)(M, sym=sym, dtype=fl.float64)
        np.testing.assert_allclose(got.numpy(), one if M == 1 else values, atol=1e-14, err_msg=name)
        older = getattr(fl, name + "_window", None)
        if older is not None:
            np.testing.assert_allclose(older(M, not sym, dtype=fl.float64).numpy(), one if M == 1 else values, atol=1e-14)
    cosine = np.sin(np.pi * (n + 0.5) / (M + 1 if not sym and M > 1 else max(M, 1)))
    np.testing.assert_allclose(windows.cosine(M, sym=sym, dtype=fl.float64).numpy(), cosine, atol=1e-14)
    got = windows.gaussian(M, std=3.0, sym=sym, dtype=fl.float64).numpy()
    np.testing.assert_allclose(got, np.exp(-(((n - middle) / 3) ** 2) / 2), atol=1e-14)
    got = windows.exponential(M, tau=2.0, sym=sym, dtype=fl.float64).numpy()
    np.testing.assert_allclose(got, np.exp(-np.abs(n - middle) / 2), atol=1e-14)
    got = windows.general_cosine(M, a=[0.46, 0.23, 0.31], sym=sym, dtype=fl.float64).numpy()
    values = 0.46 - 0.23 * np.cos(angle) + 0.31 * np.cos(2 * angle)
    np.testing.assert_allclose(got, one if M == 1 else values, atol=1e-14)
    got = windows.general_hamming(M, alpha=0.7, sym=sym, dtype=fl.float64).numpy()
    np.testing.assert_allclose(got, one if M == 1 else 0.7 - 0.3 * np.cos(angle), atol=1e-14)


def test_windows_have_options():
    assert windows.hann(4).dtype == fl.float32 and windows.hann(4, requires_grad=True).requires_grad
    assert fl.hamming_window(5, True, 0.6, 0.3, dtype=fl.float64)[0].item() == pytest.approx(0.3)
    assert fl.kaiser_window(5, False, beta=2.0).shape == (5,)
    assert fl.blackman_window(5, periodic=False, dtype=fl.float16).dtype == fl.float16
