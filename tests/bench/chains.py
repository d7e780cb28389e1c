"""Times chains of elementwise operators as written and compiled, beside PyTorch as written and with `torch.compile`.

    python tests/bench/chains.py [--threads 1] [--seconds 0.3] [--elements 131072 16777216] [--only NAME ..]

The Python that runs this needs torch, a C++ compiler for `torch.compile`, and flambeau, built with optimisations. Each side is a process,
and the sides alternate on each chain, in one order and then in the reverse one; times are the shortest. A line has our time compiled,
the ratios of the other times to it, the share of memory's bandwidth (each argument read once, each result written once, beside the
fastest copy of 128 MiB), how long the first call took, and whether the bits are those of the chain as written.
"""

import argparse
import importlib
import json
import math
import subprocess
import sys
import time

SIDES = ("flambeau", "torch")


def bias_gelu_scale(t, x, bias):
    return t.nn.functional.gelu(x + bias[0]) * 2.0


def rmsnorm(t, x, w):
    return x * t.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w[0]


def squared_error(t, x, y):
    return (x - y) ** 2


def smooth_l1(t, x, y):
    d = (x - y).abs()
    return t.where(d < 1.0, 0.5 * d * d, d - 0.5)


def bce_with_logits(t, x, y):
    return x.clamp(min=0) - x * y + t.log1p(t.exp(-x.abs()))


def gelu_tanh(t, x):
    return 0.5 * x * (1 + t.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def swiglu(t, x, y):
    return x * t.sigmoid(x) * y


def mish(t, x):
    return x * t.tanh(t.nn.functional.softplus(x))


def sgd_momentum(t, p, g, m):
    m = 0.9 * m + (g + 0.01 * p)
    return p - 0.1 * m, m


def adam(t, p, g, m, v):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.001 * m / (v.abs().sqrt() + 1e-8), m, v


def rmsprop(t, p, g, v):
    v = 0.99 * v + 0.01 * g * g
    return p - 0.001 * g / (v.abs().sqrt() + 1e-8), v


def normalized(t, x, mean, deviation, weight):
    return (x - mean) * t.rsqrt(deviation * deviation + 1e-5) * weight


LIST = (
    [bias_gelu_scale, rmsnorm]
    + [squared_error, smooth_l1, bce_with_logits]
    + [gelu_tanh, swiglu, mish]
    + [sgd_momentum, adam, rmsprop, normalized]
)
CHAINS = {chain.__name__: chain for chain in LIST}
# Chains of which the second argument is one row.
OF_A_ROW = ("bias_gelu_scale", "rmsnorm")
COLUMNS = 1024


class Side:
    """The chains in one library."""

    def __init__(self, name, threads):
        self.module = importlib.import_module(name)
        importlib.import_module(name + ".nn")
        self.module.set_num_threads(threads)
        self.compiled = {}
        if name == "torch":
            # All chains are one function to its compiler, which runs it as written after eight variants.
            importlib.import_module("torch._dynamo").config.recompile_limit = 8 * len(CHAINS)

    def inputs(self, chain, elements):
        """As many as the chain has parameters, with the same numbers on both sides, in -2 to 2."""
        steps = self.module.arange(elements, dtype=self.module.float32).reshape(-1, COLUMNS)
        made = [((steps * (0.618 + 0.1 * i)) % 1) * 4 - 2 for i in range(chain.__code__.co_argcount - 1)]
        if chain.__name__ in OF_A_ROW:
            made[1] = made[1][:1].clone()
        return made

    def run(self, name, elements, seconds):
        # Names of their own: a function that reads another object, such as `self`, is not compiled.
        chain, module = CHAINS[name], self.module

        def written(*args):
            return chain(module, *args)

        inputs = self.inputs(chain, elements)
        expected = written(*inputs)
        if name not in self.compiled:
            self.compiled[name] = self.module.compile(written)
        fused = self.compiled[name]
        start = time.perf_counter()
        found = fused(*inputs)
        first = time.perf_counter() - start
        results = len(found) if isinstance(found, tuple) else 1
        return {
            "written": shortest(lambda: written(*inputs), seconds),
            "compiled": shortest(lambda: fused(*inputs), seconds),
            "first": first,
            "same": self.same(found, expected),
            "bytes": 4 * (sum(x.numel() for x in inputs) + elements * results),
        }

    def same(self, found, expected):
        """Whether all bits are equal."""
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        bits = self.module.int32
        return all(bool((a.view(bits) == b.view(bits)).all()) for a, b in pairs)

    def bandwidth(self, seconds):
        """Bytes that a copy of 128 MiB reads and writes in a second."""
        source = self.module.ones(1 << 25)
        target = self.module.empty(1 << 25)
        return 2 * 4 * (1 << 25) / shortest(lambda: target.copy_(source), seconds)


def shortest(call, seconds):
    call()
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def serve(options):
    side = Side(options.serve, options.threads)
    for line in sys.stdin:
        request = json.loads(line)
        if request["chain"] is None:
            answer = side.bandwidth(options.seconds)
        else:
            answer = side.run(request["chain"], request["elements"], options.seconds)
        print(json.dumps(answer), flush=True)


class Process:
    """A side, in a process of its own."""

    def __init__(self, side, options):
        command = [sys.executable, __file__, "--serve", side]
        command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, chain, elements=0):
        self.process.stdin.write(json.dumps({"chain": chain, "elements": elements}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(("{", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")):
                return json.loads(line)
        raise SystemExit(f"{self.process.args} ended: {self.process.wait()}")


def measured(processes, chain, elements):
    """The shorter of two times of each side; the first call is the first of both."""
    found = {side: processes[side].ask(chain, elements) for side in SIDES}
    for side in reversed(SIDES):
        again = processes[side].ask(chain, elements)
        for key in ("written", "compiled"):
            found[side][key] = min(found[side][key], again[key])
    return found


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each measurement")
    parser.add_argument("--elements", type=int, nargs="+", default=[1 << 17, 1 << 24])
    parser.add_argument("--only", nargs="+", default=list(CHAINS), metavar="CHAIN")
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options)
    processes = {side: Process(side, options) for side in SIDES}
    bandwidth = max(processes[side].ask(None) for side in SIDES)
    print(f"memory: {bandwidth * 1e-9:.1f} GB/s")
    columns = ("compiled", "written", "PyTorch", "its compile", "bandwidth", "first call", "its first", "bits")
    print(f"{'chain':18} {'elements':>10}" + "".join(f" {column:>11}" for column in columns))
    ratios = {"written": [], "PyTorch": [], "its compile": []}
    for elements in options.elements:
        for chain in options.only:
            ours, theirs = measured(processes, chain, elements).values()
            time = ours["compiled"]
            found = [ours["written"] / time, theirs["written"] / time, theirs["compiled"] / time]
            for values, ratio in zip(ratios.values(), found, strict=True):
                values.append(ratio)
            print(
                f"{chain:18} {elements:10} {time * 1e6:8.1f} us" + "".join(f" {ratio:11.2f}" for ratio in found)
                + f" {ours['bytes'] / time / bandwidth:11.2f} {ours['first'] * 1e3:8.1f} ms {theirs['first'] * 1e3:8.1f} ms"
                + f" {'same' if ours['same'] else 'OTHER':>11}",
                flush=True,
            )
    print("geometric means: " + ", ".join(f"{name} {mean(values):.2f}" for name, values in ratios.items()))
    return None


if __name__ == "__main__":
    main()
