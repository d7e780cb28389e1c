#!/usr/bin/env python3
"""The workloads of linear_algebra.rs in PyTorch: Fourier transforms, decompositions and complex numbers."""

import math

import numpy as np
import torch
import torch_workloads
from torch_workloads import WORKLOADS, fill, on

REAL = {"f32": torch.float32, "f64": torch.float64}
COMPLEX = {"c64": torch.complex64, "c128": torch.complex128}
OF_REAL = {"f32": torch.complex64, "f64": torch.complex128}
TYPES = REAL | COMPLEX


def random(*sizes, seed, dtype):
    if not dtype.is_complex:
        return fill(*sizes, seed=seed, dtype=dtype)
    return torch.view_as_complex(fill(*sizes, 2, seed=seed, dtype=dtype.to_real()))


# Fourier transforms.

LINES = (
    (4096, 8), (1024, 64), (64, 1000), (64, 1009), (64, 1024), (16, 4096),
    (1, 65536), (1, 99991), (1, 100_000), (1, 1 << 20),
)  # fmt: skip


def transforms():
    for label, real in REAL.items():
        dtype = OF_REAL[label]
        for rows, n in LINES:
            of = lambda dtype, rows=rows, n=n: lambda: random(rows, n, seed=1, dtype=dtype)
            on(f"fft.c2c_{label}.{rows}x{n}", of(dtype), torch.fft.fft)
            on(f"fft.r2c_{label}.{rows}x{n}", of(real), torch.fft.rfft)
            half = of(dtype, n=n // 2 + 1)
            on(f"fft.c2r_{label}.{rows}x{n}", half, lambda x, n=n: torch.fft.irfft(x, n))
        for rows, n in ((512, 512), (500, 500), (64, 4096)):
            of = lambda dtype, rows=rows, n=n: lambda: random(rows, n, seed=1, dtype=dtype)
            on(f"fft.c2c2_{label}.{rows}x{n}", of(dtype), torch.fft.fft2)
            on(f"fft.r2c2_{label}.{rows}x{n}", of(real), torch.fft.rfft2)
            on(f"fft.rows_{label}.{rows}x{n}", of(dtype), lambda x: torch.fft.fft(x, dim=0))


# Decompositions.


def matrices(count, n, dtype):
    pivots = np.zeros((count, n, n))
    matrix, row = np.arange(count)[:, None], np.arange(n)[None, :]
    pivots[matrix, row, (row + matrix + 1) % n] = 2.0 * math.sqrt(n)
    sizes = (n, n) if count == 1 else (count, n, n)
    return random(*sizes, seed=1, dtype=dtype) + torch.from_numpy(pivots.reshape(sizes)).to(dtype)


def hermitian(count, n, dtype):
    a = matrices(count, n, dtype)
    return (a @ a.mH + torch.eye(n, dtype=dtype)).contiguous()


DECOMPOSITIONS = {
    "cholesky": (hermitian, lambda a, b: torch.linalg.cholesky(a)),
    "lu": (matrices, lambda a, b: torch.linalg.lu_factor(a)[0]),
    "solve": (matrices, torch.linalg.solve),
    "inv": (matrices, lambda a, b: torch.linalg.inv(a)),
    "det": (matrices, lambda a, b: torch.linalg.det(a)),
    "qr": (matrices, lambda a, b: torch.linalg.qr(a)[1]),
    "eigh": (hermitian, lambda a, b: torch.linalg.eigh(a)[0]),
    "svd": (matrices, lambda a, b: torch.linalg.svd(a, full_matrices=False)[1]),
    "eig": (matrices, lambda a, b: torch.linalg.eig(a)[0].abs().sum()),
    "lstsq": (matrices, lambda a, b: torch.linalg.lstsq(a, b)[0]),
}
BATCHES = ((1000, 4), (1000, 8), (1000, 16), (1000, 32), (1, 64), (1, 256), (1, 1000))


def decompositions():
    for operator, (make, call) in DECOMPOSITIONS.items():
        for label in ("f32", "f64", "c128"):
            for count, n in BATCHES:
                dtype, sizes = TYPES[label], (n, n) if count == 1 else (count, n, 1)
                inputs = lambda make=make, count=count, n=n, dtype=dtype, sizes=sizes: (
                    make(count, n, dtype),
                    random(*sizes, seed=2, dtype=dtype),
                )
                on(f"decomposition.{operator}_{label}.{count}x{n}", inputs, call)


# Complex numbers.


def elementwise():
    unary = (torch.abs, torch.angle, torch.exp, torch.log, torch.sqrt, torch.sin, torch.tanh, torch.sum)
    for label, dtype in COMPLEX.items():
        for size, n in (("1e4", 10_000), ("1e6", 1_000_000)):
            of = lambda seed, n=n, dtype=dtype: random(n, seed=seed, dtype=dtype)
            for op in (torch.add, torch.mul, torch.div):
                on(f"complex.{op.__name__}_{label}.{size}", lambda of=of: (of(1), of(2)), op)
            for op in unary:
                on(f"complex.{op.__name__}_{label}.{size}", lambda of=of: of(1), op)


PRODUCTS = {
    "1000x8": ((1000, 8, 8), (1000, 8, 8)),
    "16": ((16, 16), (16, 16)),
    "64": ((64, 64), (64, 64)),
    "256": ((256, 256), (256, 256)),
    "1024": ((1024, 1024), (1024, 1024)),
    "1024x1024x1": ((1024, 1024), (1024, 1)),
    "1x1024x1024": ((1, 1024), (1024, 1024)),
}


def products():
    for label, dtype in COMPLEX.items():
        pair = lambda a, b, dtype=dtype: (random(*a, seed=1, dtype=dtype), random(*b, seed=2, dtype=dtype))
        for size, (a, b) in PRODUCTS.items():
            on(f"complex.matmul_{label}.{size}", lambda a=a, b=b, pair=pair: pair(a, b), torch.matmul)
        square = lambda pair=pair: tuple(x.t() for x in pair((256, 256), (256, 256)))
        on(f"complex.matmul_{label}.transposed_256", square, torch.matmul)


if __name__ == "__main__":
    WORKLOADS.clear()
    for family in (transforms, decompositions, elementwise, products):
        family()
    torch_workloads.main()
