#!/usr/bin/env python3
"""The workloads of this folder in PyTorch, by the same rules: one JSON object a line."""

import argparse
import gc
import json
import math
import os
import re
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

WORKLOADS = {}
LARGE = 10_000_000
SIZES = {"1e3": 1000, "1e5": 100_000, "1e7": LARGE}


def workload(name):
    """Registers a function that makes the inputs and returns the call to time."""

    def register(setup):
        WORKLOADS[name] = setup
        return setup

    return register


# Inputs.


def hashed(sizes, seed):
    h = np.arange(math.prod(sizes), dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = h * np.uint32(0x9E3779B1) + np.uint32(seed * 0x85EBCA77 & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        return h ^ h >> np.uint32(16)


def fill(*sizes, seed, dtype=torch.float32):
    values = (hashed(sizes, seed) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    return torch.from_numpy(values).reshape(sizes).to(dtype)


def positive(*sizes, seed):
    return fill(*sizes, seed=seed) * 0.5 + 1.0


def indices(*sizes, bound, seed):
    return torch.from_numpy((hashed(sizes, seed) % np.uint32(bound)).astype(np.int64)).reshape(sizes)


def leaf(*sizes, seed):
    return fill(*sizes, seed=seed).requires_grad_()


class Params:
    """The parameters of a model in a fixed order, each from the next seed."""

    def __init__(self):
        self.all = []

    def _keep(self, tensor):
        self.all.append(tensor.requires_grad_())
        return tensor

    def uniform(self, *sizes, scale):
        return self._keep(fill(*sizes, seed=100 + len(self.all)) * scale)

    def constant(self, *sizes, value):
        return self._keep(torch.full(sizes, float(value)))

    def linear(self, inputs, outputs):
        return self.uniform(outputs, inputs, scale=inputs**-0.5), self.constant(outputs, value=0)

    def norm(self, size):
        return self.constant(size, value=1), self.constant(size, value=0)


# Functions that register workloads.


def on(name, make, op):
    """An operator on the inputs that `make` returns."""

    def setup():
        inputs = make()
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        return lambda: op(*inputs)

    WORKLOADS[name] = setup


def backward_of(name, make, op, result):
    """Forward, sum, backward to all inputs that ask for it; the result is the gradient of input `result`."""

    def setup():
        inputs = make()

        def call():
            op(*inputs).sum().backward()
            grad = inputs[result].grad
            for x in inputs:
                x.grad = None
            return grad

        return call

    WORKLOADS[name] = setup


def two(*a, b=None, dtype=torch.float32):
    return lambda: (fill(*a, seed=1, dtype=dtype), fill(*(b or a), seed=2, dtype=dtype))


# Overhead.


@workload("dispatch.chain10_fwd_bwd")
def _():
    x = leaf(1, seed=1)

    def call():
        y = x
        for _ in range(5):
            y = y * x
            y = y + x
        y.backward()
        grad, x.grad = x.grad, None
        return grad

    return call


def dispatch():
    small = lambda: fill(2, 3, 4, seed=1)
    on("dispatch.add1_nograd", two(1), lambda a, b: a + b)
    on("dispatch.add1_grad", lambda: (leaf(1, seed=1), leaf(1, seed=2)), lambda a, b: a + b)
    on("dispatch.view", small, lambda x: x.view(6, 4))
    on("dispatch.transpose", small, lambda x: x.transpose(0, 1))
    on("dispatch.slice", small, lambda x: x[:, 1:3])
    on("dispatch.empty4", lambda: (), lambda: torch.empty(4))


# Elementwise.


def elementwise():
    unary = {
        "relu": (torch.relu, fill), "exp": (torch.exp, fill), "tanh": (torch.tanh, fill), "sigmoid": (torch.sigmoid, fill),
        "gelu": (F.gelu, fill), "sin": (torch.sin, fill), "clamp": (lambda x: torch.clamp(x, -0.5, 0.5), fill),
        "log": (torch.log, positive), "pow": (lambda x: torch.pow(x, 2.5), positive),
    }  # fmt: skip
    for size, n in SIZES.items():
        on(f"elementwise.add.{size}", two(n), torch.add)
        on(f"elementwise.mul.{size}", two(n), torch.mul)
        for name, (op, make) in unary.items():
            on(f"elementwise.{name}.{size}", lambda n=n, make=make: make(n, seed=1), op)
        chosen = lambda n=n: (fill(n, seed=3) > 0, fill(n, seed=1), fill(n, seed=2))
        on(f"elementwise.where.{size}", chosen, torch.where)
    on("elementwise.add_row_broadcast", two(4096, 1024, b=(1024,)), torch.add)
    on("elementwise.add_col_broadcast", two(4096, 1024, b=(4096, 1)), torch.add)
    on("elementwise.add_transposed", lambda: (fill(2048, 2048, seed=1), fill(2048, 2048, seed=2).t()), torch.add)
    on("elementwise.add_inplace.1e7", lambda: (fill(LARGE, seed=1), fill(LARGE, seed=2) * 1e-3), lambda a, b: a.add_(b))
    on("elementwise.add_out.1e7", lambda: (*two(LARGE)(), torch.empty(LARGE)), lambda a, b, c: torch.add(a, b, out=c))
    for label, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        on(f"elementwise.add_{label}.1e7", two(LARGE, dtype=dtype), torch.add)
        on(f"elementwise.exp_{label}.1e7", lambda dtype=dtype: fill(LARGE, seed=1, dtype=dtype), torch.exp)
    whole = lambda: (indices(LARGE, bound=1000, seed=1), indices(LARGE, bound=1000, seed=2))
    on("elementwise.add_i64.1e7", whole, torch.add)
    on("elementwise.cast_f32_bf16.1e7", lambda: fill(LARGE, seed=1), lambda x: x.to(torch.bfloat16))
    on("fused.bias_gelu_scale", two(4096, 4096, b=(4096,)), lambda x, b: F.gelu(x + b) * 2.0)
    rmsnorm = lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w
    on("fused.rmsnorm", lambda: (fill(4096, 1024, seed=1), positive(1024, seed=2)), rmsnorm)
    on("copy.contiguous_transposed", lambda: fill(4096, 4096, seed=1), lambda x: x.t().contiguous())
    on("copy.cat16", lambda: tuple(fill(256, 1024, seed=s) for s in range(16)), lambda *parts: torch.cat(parts, dim=1))


# Reductions, scans, norms, sorting.


def reduce():
    for size, n in SIZES.items():
        on(f"reduce.sum_all.{size}", lambda n=n: fill(n, seed=1), torch.sum)
    square = {
        "sum_dim0": lambda x: x.sum(0), "sum_dim1": lambda x: x.sum(1), "mean_dim1": lambda x: x.mean(1),
        "max_dim1": lambda x: x.max(1).values, "argmax_dim1": lambda x: x.argmax(1), "var_dim1": lambda x: x.var(1),
        "softmax.4096x4096": lambda x: torch.softmax(x, 1), "log_softmax.4096x4096": lambda x: torch.log_softmax(x, 1),
        "cumsum_dim1": lambda x: x.cumsum(1),
    }  # fmt: skip
    for name, op in square.items():
        on(f"reduce.{name}", lambda: fill(4096, 4096, seed=1), op)
    for name in ("softmax", "log_softmax"):
        on(f"reduce.{name}.512x50257", lambda: fill(512, 50257, seed=1), lambda x, op=getattr(torch, name): op(x, 1))
    affine = lambda: (fill(4096, 1024, seed=1), positive(1024, seed=2), fill(1024, seed=3))
    norm = lambda x, w, b: F.layer_norm(x, (1024,), w, b)
    on("reduce.layer_norm.fwd", affine, norm)
    backward_of("reduce.layer_norm.fwd_bwd", lambda: tuple(t.requires_grad_() for t in affine()), norm, 0)
    planes = lambda: (fill(32, 64, 56, 56, seed=1), torch.zeros(64), torch.ones(64), positive(64, seed=2), fill(64, seed=3))
    on("reduce.batch_norm.train_fwd", planes, lambda *arguments: F.batch_norm(*arguments, training=True))
    on("reduce.sort.1000x1000", lambda: fill(1000, 1000, seed=1), lambda x: x.sort(1).values)
    on("reduce.topk10.1000x10000", lambda: fill(1000, 10000, seed=1), lambda x: x.topk(10, dim=1).values)


# Indexing.


def index():
    rows = lambda: (fill(100_000, 64, seed=1), indices(100_000, bound=100_000, seed=2))
    on("index.index_select", rows, lambda x, ids: x.index_select(0, ids))
    gather_inputs = lambda: (fill(4096, 4096, seed=1), indices(4096, 1024, bound=4096, seed=2))
    on("index.gather", gather_inputs, lambda x, ids: x.gather(1, ids))
    masked = lambda: (fill(4096, 4096, seed=1), fill(4096, 4096, seed=2) > 0)
    on("index.masked_fill", masked, lambda x, mask: x.masked_fill(mask, -1.0))
    sums = lambda: (fill(4096, 1024, seed=1), indices(4096, 4096, bound=1024, seed=3), fill(4096, 4096, seed=2))
    on("index.scatter_add", sums, lambda base, ids, src: base.scatter_add(1, ids, src))
    words = lambda: indices(32, 512, bound=50257, seed=2)
    on("index.embedding.fwd", lambda: (words(), fill(50257, 768, seed=1)), F.embedding)

    def embedding_backward():
        ids, table = words(), leaf(50257, 768, seed=1)

        def call():
            F.embedding(ids, table).sum().backward()
            grad, table.grad = table.grad, None
            return grad

        return call

    WORKLOADS["index.embedding.fwd_bwd"] = embedding_backward


# Products of matrices.


def linalg():
    for n in (64, 128, 256, 512, 1024, 2048):
        on(f"linalg.matmul_f32.{n}", two(n, n), torch.matmul)
    on("linalg.matmul_f64.1024", two(1024, 1024, dtype=torch.float64), torch.matmul)
    on("linalg.matmul_bf16.1024", two(1024, 1024, dtype=torch.bfloat16), torch.matmul)
    on("linalg.bmm", two(64, 128, 64, b=(64, 64, 128)), torch.matmul)
    on("linalg.matvec.4096", two(4096, 4096, b=(4096,)), torch.matmul)
    on("linalg.tall_skinny", two(8192, 256, b=(256, 16)), torch.matmul)
    layer = lambda: (leaf(512, 1024, seed=1), leaf(1024, 1024, seed=2), leaf(1024, seed=3))
    backward_of("linalg.linear.fwd_bwd", layer, F.linear, 1)


# Operators of neural networks.


def network():
    convolutions = {
        "stem": ((8, 3, 224, 224), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
        "64x56": ((8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        "128x28": ((8, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}),
        "256x14": ((8, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
        "512x7": ((8, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
        "depthwise": ((32, 144, 28, 28), (144, 1, 3, 3), {"padding": 1, "groups": 144}),
    }
    for name, (x, w, how) in convolutions.items():
        conv = lambda x, w, how=how: F.conv2d(x, w, **how)
        on(f"nn.conv_{name}.fwd", two(*x, b=w), conv)
        backward_of(f"nn.conv_{name}.fwd_bwd", lambda x=x, w=w: (leaf(*x, seed=1), leaf(*w, seed=2)), conv, 1)
    on("nn.max_pool2d", lambda: fill(8, 64, 112, 112, seed=1), lambda x: F.max_pool2d(x, 3, stride=2, padding=1))
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    on("nn.sdpa_causal.fwd", lambda: tuple(fill(4, 12, 512, 64, seed=s) for s in (1, 2, 3)), attend)
    backward_of("nn.sdpa_causal.fwd_bwd", lambda: tuple(leaf(4, 12, 512, 64, seed=s) for s in (1, 2, 3)), attend, 0)
    ids = lambda: indices(4096, bound=50257, seed=2)

    def cross_entropy():
        logits, targets = leaf(4096, 50257, seed=1), ids()

        def call():
            F.cross_entropy(logits, targets).backward()
            grad, logits.grad = logits.grad, None
            return grad

        return call

    WORKLOADS["nn.cross_entropy.fwd_bwd"] = cross_entropy


# Whole models.


def step(loss_of, optimizer):
    def call():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    return call


@workload("e2e.tiny_mlp")
def _():
    p = Params()
    first, second = p.linear(8, 16), p.linear(16, 1)
    x, y = fill(4, 8, seed=1), fill(4, 1, seed=2)
    loss = lambda: F.mse_loss(F.linear(torch.tanh(F.linear(x, *first)), *second), y)
    return step(loss, torch.optim.SGD(p.all, lr=0.01))


@workload("e2e.mlp_sgd")
def _():
    p = Params()
    layers = p.linear(784, 512), p.linear(512, 256), p.linear(256, 10)
    x, ids = fill(128, 784, seed=1), indices(128, bound=10, seed=2)

    def loss():
        h = F.relu(F.linear(x, *layers[0]))
        h = F.relu(F.linear(h, *layers[1]))
        return F.cross_entropy(F.linear(h, *layers[2]), ids)

    return step(loss, torch.optim.SGD(p.all, lr=0.01))


@workload("e2e.cnn_adam")
def _():
    p = Params()
    first = p.uniform(16, 1, 3, 3, scale=9**-0.5), p.constant(16, value=0)
    second = p.uniform(32, 16, 3, 3, scale=144**-0.5), p.constant(32, value=0)
    last = p.linear(1568, 10)
    x, ids = fill(64, 1, 28, 28, seed=1), indices(64, bound=10, seed=2)

    def loss():
        h = F.max_pool2d(F.relu(F.conv2d(x, *first, padding=1)), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, *second, padding=1)), 2)
        return F.cross_entropy(F.linear(h.flatten(1), *last), ids)

    return step(loss, torch.optim.Adam(p.all, lr=1e-3))


@workload("e2e.gpt_adamw")
def _():
    layers, width, heads, context, batch, vocabulary = 4, 256, 4, 128, 16, 512
    p = Params()
    tokens = p.uniform(vocabulary, width, scale=0.02)
    positions = p.uniform(context, width, scale=0.02)
    blocks = []
    for _ in range(layers):
        first, attention = p.norm(width), (p.linear(width, 3 * width), p.linear(width, width))
        second, mlp = p.norm(width), (p.linear(width, 4 * width), p.linear(4 * width, width))
        blocks.append((first, attention, second, mlp))
    last = p.norm(width)
    head = p.uniform(vocabulary, width, scale=width**-0.5)
    ids = indices(batch, context, bound=vocabulary, seed=1)
    targets = indices(batch * context, bound=vocabulary, seed=2)
    split = lambda x: x.view(batch, context, heads, width // heads).transpose(1, 2)

    def loss():
        x = F.embedding(ids, tokens) + positions
        for first, attention, second, mlp in blocks:
            q, k, v = F.linear(F.layer_norm(x, (width,), *first), *attention[0]).split(width, dim=2)
            h = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True)
            x = x + F.linear(h.transpose(1, 2).reshape(batch, context, width), *attention[1])
            x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (width,), *second), *mlp[0])), *mlp[1])
        logits = F.linear(F.layer_norm(x, (width,), *last), head)
        return F.cross_entropy(logits.view(batch * context, vocabulary), targets)

    return step(loss, torch.optim.AdamW(p.all, lr=3e-4, weight_decay=0.1))


def resnet18(batch):
    p = Params()

    def conv_norm(inputs, outputs, kernel, stride):
        weight = p.uniform(outputs, inputs, kernel, kernel, scale=(6 / (inputs * kernel**2)) ** 0.5)
        norm = p.norm(outputs)
        mean, var = torch.zeros(outputs), torch.ones(outputs)
        conv = lambda x: F.conv2d(x, weight, stride=stride, padding=kernel // 2)
        return lambda x: F.batch_norm(conv(x), mean, var, *norm, training=False)

    def residual(inputs, outputs, stride):
        first, second = conv_norm(inputs, outputs, 3, stride), conv_norm(outputs, outputs, 3, 1)
        skip = conv_norm(inputs, outputs, 1, stride) if stride == 2 else lambda x: x
        return lambda x: F.relu(second(F.relu(first(x))) + skip(x))

    stem = conv_norm(3, 64, 7, 2)
    widths = (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)
    blocks = [residual(*width) for width in widths]
    last = p.linear(512, 1000)
    x = fill(batch, 3, 224, 224, seed=1)

    def call():
        with torch.inference_mode():
            h = F.max_pool2d(F.relu(stem(x)), 3, stride=2, padding=1)
            for block in blocks:
                h = block(h)
            return F.linear(h.mean((2, 3)), *last)

    return call


WORKLOADS["e2e.resnet18.b1"] = lambda: resnet18(1)
WORKLOADS["e2e.resnet18.b8"] = lambda: resnet18(8)
for family in (dispatch, elementwise, reduce, index, linalg, network):
    family()


# Timing.


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
    samples, deadline, cpu = [], time.perf_counter() + seconds, time.process_time_ns()
    while len(samples) < 7 or (len(samples) < 300 and time.perf_counter() < deadline):
        samples.append(timed(call, count))
    cpu = (time.process_time_ns() - cpu) / (count * len(samples))
    quartiles = statistics.quantiles(samples, n=4)
    return {
        "name": name,
        "median_ns": statistics.median(samples),
        "min_ns": min(samples),
        "iqr_ns": quartiles[2] - quartiles[0],
        "cpu_ns": cpu,
        "check": checked,
    }


def avoid_broken_amx():
    """Keeps oneDNN from AMX where it is announced but faults, as on some virtual machines: a child that tries it tells."""
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not announces_amx():
        return
    child = os.fork()
    if child == 0:
        square = torch.ones(256, 256, dtype=torch.bfloat16)
        square @ square
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
        print("AMX is announced and faults: PyTorch runs without it", file=sys.stderr)


def announces_amx():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return "amx_bf16" in file.read()
    except OSError:
        return False


def serve(seconds):
    """Answers each line of the input with the times of the workload of that name, or null; inputs stay until another is named."""
    name, call = None, None
    for line in sys.stdin:
        if line.strip() != name:
            call = None
            gc.collect()
            name = line.strip()
            call = WORKLOADS[name]() if name in WORKLOADS else None
        print(json.dumps(call and measure(name, call, seconds)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filters", nargs="*", help="regular expressions, all of which the names must match")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of samples for each workload")
    parser.add_argument("--serve", action="store_true", help="times the workload that each line of the input names")
    options = parser.parse_args()
    avoid_broken_amx()
    torch.set_num_threads(options.threads)
    if options.serve:
        serve(options.seconds)
        return
    for name, setup in WORKLOADS.items():
        if all(re.search(pattern, name) for pattern in options.filters):
            print(json.dumps(measure(name, setup(), options.seconds)), flush=True)
            gc.collect()


if __name__ == "__main__":
    main()
