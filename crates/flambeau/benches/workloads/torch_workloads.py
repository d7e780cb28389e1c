#!/usr/bin/env python3
"""The workloads of this folder in PyTorch, by the same rules: one JSON object a line."""

import json
import math
import statistics
import sys
import time

import numpy as np
import torch


def fill(*sizes, seed):
    i = np.arange(math.prod(sizes), dtype=np.uint64)
    h = (i * 0x9E3779B1 + seed * 0x85EBCA77) & 0xFFFFFFFF
    h ^= h >> 16
    h = (h * 0x85EBCA6B) & 0xFFFFFFFF
    h ^= h >> 13
    h = (h * 0xC2B2AE35) & 0xFFFFFFFF
    h ^= h >> 16
    values = (h >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return torch.from_numpy(values).reshape(sizes)


def chain(x):
    y = x
    for _ in range(5):
        y = y * x
        y = y + x
    y.backward()
    grad, x.grad = x.grad, None
    return grad


def workloads():
    leaf = lambda seed: fill(1, seed=seed).requires_grad_()
    x3 = lambda: fill(2, 3, 4, seed=1)
    yield "dispatch.add1_nograd", lambda: (lambda a, b: lambda: a + b)(fill(1, seed=1), fill(1, seed=2))
    yield "dispatch.add1_grad", lambda: (lambda a, b: lambda: a + b)(leaf(1), leaf(2))
    yield "dispatch.view", lambda: (lambda x: lambda: x.view(6, 4))(x3())
    yield "dispatch.transpose", lambda: (lambda x: lambda: x.transpose(0, 1))(x3())
    yield "dispatch.slice", lambda: (lambda x: lambda: x[:, 1:3])(x3())
    yield "dispatch.empty4", lambda: lambda: torch.empty(4)
    yield "dispatch.chain10_fwd_bwd", lambda: (lambda x: lambda: chain(x))(leaf(1))
    for size, n in (("1e3", 1000), ("1e5", 100_000), ("1e7", 10_000_000)):
        for name in ("add", "mul"):
            op = getattr(torch, name)
            make = lambda op=op, n=n: (lambda a, b: lambda: op(a, b))(fill(n, seed=1), fill(n, seed=2))
            yield f"elementwise.{name}.{size}", make
        for name in ("relu", "exp", "tanh", "sigmoid"):
            op = getattr(torch, name)
            yield f"elementwise.{name}.{size}", lambda op=op, n=n: (lambda x: lambda: op(x))(fill(n, seed=1))
        yield f"reduce.sum_all.{size}", lambda n=n: (lambda x: lambda: x.sum())(fill(n, seed=1))
    for n in (64, 128, 256, 512, 1024):
        make = lambda n=n: (lambda a, b: lambda: a @ b)(fill(n, n, seed=1), fill(n, n, seed=2))
        yield f"linalg.matmul_f32.{n}", make


def timed(call, count):
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count


def check(result):
    head = result.detach().reshape(-1)[: 1 << 20].double().numpy()
    values = [float((head * (1.0 + np.arange(head.size) % 7)).mean()), float(np.abs(head).mean())]
    return [v if math.isfinite(v) else None for v in values]


def measure(name, call, seconds):
    call()
    checked = check(call())
    count, estimate = 1, timed(call, 1)
    while estimate * count < 2e5:
        count = math.ceil(2e5 / estimate)
        estimate = timed(call, count)
    for _ in range(min(20, int(5e7 / (estimate * count)))):
        timed(call, count)
    samples, deadline = [], time.perf_counter() + seconds
    while len(samples) < 7 or (len(samples) < 300 and time.perf_counter() < deadline):
        samples.append(timed(call, count))
    quartiles = statistics.quantiles(samples, n=4)
    return {
        "name": name,
        "median_ns": statistics.median(samples),
        "min_ns": min(samples),
        "iqr_ns": quartiles[2] - quartiles[0],
        "check": checked,
    }


def main():
    wanted, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    for name, setup in workloads():
        if wanted in name:
            print(json.dumps(measure(name, setup(), seconds)), flush=True)


if __name__ == "__main__":
    main()
