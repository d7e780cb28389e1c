"""How long training steps of usual models take here and in PyTorch.

    python tests/parity/python/step_times.py [--only gpt lstm] [--threads 1] [--seconds 2] [--rounds 3] [--rust PROGRAM]

The Python that runs this needs torch and flambeau, the latter built with optimisations: after `cargo xtask bench --table ops` it is in
`target/bench-python`, which `PYTHONPATH` then names. The models are those of `models/training.py`, in which the import lines are changed.
With `--rust`, those of the example `step_times` are a third side: `cargo build --release --package flambeau --example step_times` makes
`target/release/examples/step_times`.
In a round each side runs each model in a process of its own, twice: first in one order of the sides and then in the other. Printed
are the medians of all steps, and PyTorch's time over ours, from Python and from Rust.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

LIBRARIES = ("torch", "flambeau")
RUST = "Rust"
SOURCE = pathlib.Path(__file__).resolve().parent / "models" / "training.py"
WARM_UP = 3


def models(library):
    """The functions of the models, with `library` for PyTorch."""
    text = re.sub(r"^import torch$", f"import {library} as torch", SOURCE.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^import torch\.(\S+) as", rf"import {library}.\1 as", text, flags=re.MULTILINE)
    found = {}
    exec(compile(text, str(SOURCE), "exec"), found)
    return found["torch"], found["MODELS"]


def serve(library, name, threads, seconds):
    """Runs steps of a model, and prints their times in seconds and the last loss."""
    torch, functions = models(library)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step = functions[name]()
    for _ in range(WARM_UP):
        step()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < WARM_UP:
        start = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"times": times, "loss": loss.item()}))


def run(side, name, options):
    """The times of a model in a process of its own."""
    command = [options.rust] if side == RUST else [sys.executable, __file__, "--serve", side]
    command += ["--only", name, "--threads", str(options.threads), "--seconds", str(options.seconds)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if not math.isfinite(answer["loss"]):
        raise SystemExit(f"{name}: the loss of {side} is {answer['loss']}")
    return answer["times"]


def compare(name, sides, options):
    """Prints the times of a model, and returns the ratio of each of our sides."""
    times = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides + sides[::-1]:
            times[side] += run(side, name, options)
    theirs, *ours = (1e3 * statistics.median(times[side]) for side in sides)
    ratios = [theirs / mine for mine in ours]
    columns = "".join(f" {mine:9.2f} ms {ratio:6.2f}" for mine, ratio in zip(ours, ratios, strict=True))
    print(f"{name:10} {theirs:9.2f} ms{columns}", flush=True)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="these models instead of all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="time of a process, without its warming up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rust", metavar="PROGRAM", help="the example step_times, which is timed too")
    parser.add_argument("--serve", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.only[0], options.threads, options.seconds)
    sides = LIBRARIES + ((RUST,) if options.rust else ())
    print(f"{'':10} {'PyTorch':>12} {'Python':>12} {'ratio':>6}" + (f" {'Rust':>12} {'ratio':>6}" if options.rust else ""))
    names = options.only or list(models("torch")[1])
    found = [compare(name, sides, options) for name in names]
    for side, ratios in zip(("Python", "Rust"), zip(*found, strict=True)):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{side}: geometric mean {mean:.2f}, smallest {min(ratios):.2f}")
    return None


if __name__ == "__main__":
    main()
