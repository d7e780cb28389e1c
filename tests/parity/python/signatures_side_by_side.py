"""Names, parameters and defaults of nn, optim and utils.data beside PyTorch's.

Run it with a Python that has both packages: `python tests/parity/python/signatures_side_by_side.py`.
"""

from __future__ import annotations

import inspect
import re
import sys

import torch

import flambeau

MODULES = ("nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "utils.data")
# Differences that stay, each with its reason.
KEPT = {
    "nn.Hardtanh": "min_value and max_value were replaced by min_val and max_val in 2017",
    "nn.Module": "arguments that only `call_super_init` would use",
    "nn.Module.forward": "names of arguments that nothing reads",
    "nn.functional.max_pool1d": "PyTorch chooses between two functions, which hides their parameters",
    "nn.functional.max_pool2d": "PyTorch chooses between two functions, which hides their parameters",
    "optim.lr_scheduler.ChainedScheduler.step": "takes `epoch` as all schedulers do",
    "optim.lr_scheduler.SequentialLR.step": "takes `epoch` as all schedulers do",
    "utils.data.random_split": "None stands for the same generator",
    **dict.fromkeys(("nn.GRU", "nn.LSTM", "nn.RNN"), "PyTorch takes anything and looks at it inside"),
    **dict.fromkeys(
        ("nn.LogSigmoid", "nn.Sigmoid", "nn.Softmax2d", "nn.Softsign", "nn.Tanh", "nn.Tanhshrink"),
        "they take no arguments, and PyTorch shows those of Module",
    ),
}


def parameters(function):
    """Names, kinds where they matter, and defaults; None for what has no signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    # Addresses of functions, and the names of the packages, are no difference.
    text = lambda default: re.sub(r" at 0x\w+", "", repr(default)).replace("torch", "flambeau")  # noqa: E731
    return [(p.name, p.kind if p.kind in kinds else None, text(p.default)) for p in found]


def within(package, path):
    for name in path.split("."):
        package = getattr(package, name)
    return package


def pairs():
    """Functions and classes, with their methods, that both have."""
    for path in MODULES:
        ours, theirs = within(flambeau, path), within(torch, path)
        for name in ours.__all__:
            a, b = getattr(ours, name), getattr(theirs, name, None)
            if not callable(a):
                continue
            yield f"{path}.{name}", a, b
            if inspect.isclass(a) and b is not None:
                for method, function in vars(a).items():
                    if callable(function) and not method.startswith("_") and hasattr(b, method):
                        yield f"{path}.{name}.{method}", function, getattr(b, method)


def main():
    compared, faults, kept = 0, [], set()
    for name, ours, theirs in pairs():
        if theirs is None:
            faults.append(f"{name}: PyTorch has no such name")
            continue
        mine, other = parameters(ours), parameters(theirs)
        if mine is None or other is None:
            continue
        compared += 1
        if mine != other and name in KEPT:
            kept.add(name)
        elif mine != other:
            faults.append(f"{name}: {[p for p in mine if p not in other]} but PyTorch's is {[p for p in other if p not in mine]}")
    faults += [f"{name}: listed as different but is not" for name in KEPT if name not in kept]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{compared} signatures, {len(faults)} differ, {len(kept)} are kept different")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
