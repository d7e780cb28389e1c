"""How long small calls take from Python, here, in PyTorch and in NumPy, in one run; and how long the imports take.

Run it with a release build on the path and one thread: `OMP_NUM_THREADS=1 PYTHONPATH=crates/python/python python speed.py`.
Each number is the minimum of several rounds, which alternate, so that other programs disturb all alike.
"""

import re
import subprocess
import sys
import timeit

import flambeau as fl
import numpy as np
import torch
from flambeau.utils.dlpack import from_dlpack, to_dlpack

ROUNDS = 15


def best(statements, number):
    """Nanoseconds of each statement: the minimum over the rounds."""
    timers = {name: timeit.Timer(call) for name, call in statements.items()}
    fastest = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            fastest[name] = min(fastest[name], timer.timeit(number) / number * 1e9)
    return fastest


def step(module, optimizer):
    """One step of training a network of three layers."""
    module.manual_seed(0)
    model = module.nn.Sequential(module.nn.Linear(16, 32), module.nn.ReLU(), module.nn.Linear(32, 32), module.nn.ReLU(), module.nn.Linear(32, 4))
    x, y, loss = module.randn(8, 16), module.randn(8, 4), module.nn.functional.mse_loss
    optimizer = optimizer(list(model.parameters())) if optimizer else None

    def run():
        if optimizer:
            optimizer.zero_grad()
        loss(model(x), y).backward()
        if optimizer:
            optimizer.step()

    return run


def imported(module):
    """Milliseconds that an import takes beyond NumPy's: the fastest of several fresh interpreters."""
    code = f"import numpy, {module}"
    lines = [subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True).stderr for _ in range(7)]
    pattern = re.compile(rf"\|\s+(\d+) \| {module}$", re.MULTILINE)
    return min(int(pattern.search(text).group(1)) for text in lines) / 1000


def main():
    torch.set_num_threads(1)
    fl.set_num_threads(1)
    a, b, c = fl.ones(1), torch.ones(1), np.ones(1, dtype=np.float32)
    big = np.ones(1000, dtype=np.float32)
    ours, theirs = fl.from_numpy(big), torch.from_numpy(big)
    rows = {
        "a + b of one element": ({"flambeau": lambda: a + a, "torch": lambda: b + b, "numpy": lambda: c + c}, 20_000),
        "from_numpy": ({"flambeau": lambda: fl.from_numpy(big), "torch": lambda: torch.from_numpy(big)}, 20_000),
        "numpy()": ({"flambeau": lambda: ours.numpy(), "torch": lambda: theirs.numpy()}, 20_000),
        "DLPack and back": (
            {"flambeau": lambda: from_dlpack(to_dlpack(ours)),
             "torch": lambda: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)),
             "numpy": lambda: np.from_dlpack(big)}, 10_000),
        "MLP, forward and backward": ({"flambeau": step(fl, None), "torch": step(torch, None)}, 500),
        "MLP, a step of Adam": ({"flambeau": step(fl, fl.optim.Adam), "torch": step(torch, torch.optim.Adam)}, 200),
    }
    for name, (statements, number) in rows.items():
        found = best(statements, number)
        ratio = found["torch"] / found["flambeau"]
        print(f"{name:28}" + "".join(f"{library:>10} {time:9.0f} ns" for library, time in found.items()) + f"   {ratio:.1f} times PyTorch")
    print(f"{'import beyond NumPy':28}  flambeau {imported('flambeau'):.1f} ms, torch {imported('torch'):.0f} ms")


if __name__ == "__main__":
    main()
