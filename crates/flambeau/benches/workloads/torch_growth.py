#!/usr/bin/env python3
"""`growth.rs` in PyTorch: the same operators at the same sizes, by the rules of the workloads."""

from math import isqrt

import torch
import torch.nn.functional as F

import torch_workloads as rules
from torch_workloads import fill, indices

MOST = 10_000_000


def sizes():
    powers = [1 << power for power in range(24)]
    beside = [(1 << power) + by for power in range(4, 24, 2) for by in (-1, 1)]
    return sorted([*powers, *beside, MOST])


def rows(n):
    length = min(n, 1024)
    return fill(n // length, length, seed=1)


def binary(operator, *shape):
    a, b = fill(*shape, seed=1), fill(*shape, seed=2)
    return lambda: operator(a, b)


def unary(operator, x):
    return lambda: operator(x)


def index_select(n):
    x, ids = fill(n // 64, 64, seed=1), indices(n // 64, bound=n // 64, seed=2)
    return lambda: x.index_select(0, ids)


def conv2d(n):
    side = isqrt(n // 16)
    x, w = fill(1, 16, side, side, seed=1), fill(16, 16, 3, 3, seed=2)
    return lambda: F.conv2d(x, w, padding=1)


def attention(n):
    q, k, v = (fill(1, 4, n // 256, 64, seed=seed) for seed in (1, 2, 3))
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


FAMILIES = {
    "add": (1, MOST, lambda n: binary(torch.add, n)),
    "exp": (1, MOST, lambda n: unary(torch.exp, fill(n, seed=1))),
    "cast": (1, MOST, lambda n: unary(lambda x: x.to(torch.bfloat16), fill(n, seed=1))),
    "transpose": (1, MOST, lambda n: unary(lambda x: x.t().contiguous(), fill(isqrt(n), n // isqrt(n), seed=1))),
    "sum": (1, MOST, lambda n: unary(torch.sum, fill(n, seed=1))),
    "softmax": (1, MOST, lambda n: unary(lambda x: x.softmax(1), rows(n))),
    "layer_norm": (1, MOST, lambda n: unary(lambda x: F.layer_norm(x, x.shape[1:]), rows(n))),
    "sort": (1, MOST, lambda n: unary(lambda x: x.sort()[0], fill(n, seed=1))),
    "topk": (16, MOST, lambda n: unary(lambda x: x.topk(10)[0], fill(n, seed=1))),
    "index_select": (64, MOST, index_select),
    "matmul": (1, 1 << 22, lambda n: binary(torch.matmul, isqrt(n), isqrt(n))),
    "conv2d": (16 * 9, MOST, conv2d),
    "attention": (256, 1 << 20, attention),
}

if __name__ == "__main__":
    rules.WORKLOADS.clear()
    for name, (smallest, largest, setup) in FAMILIES.items():
        for n in sizes():
            if smallest <= n <= largest:
                rules.WORKLOADS[f"growth.{name}.{n}"] = lambda setup=setup, n=n: setup(n)
    rules.main()
