"""Writes the page of names: which of those that PyTorch's documented modules export are here, partly here, or not, and why."""

import importlib
import pathlib

import flambeau.torch

flambeau.torch.install()

import torch  # noqa: E402

from flambeau.torch import placeholders  # noqa: E402

HERE = pathlib.Path(__file__).parent
HEAD = """# PyTorch's names

`tests/compat/table.py` writes this page. It lists the names that the documented modules of PyTorch 2.15 export. `python -m flambeau.torch
program.py` runs a program in which `import torch` imports Flambeau, and `flambeau.torch.install()` does the same from inside of a
program. Every public name exists. A name that is not implemented raises NotImplementedError with a reason when it is called.

"""

# Names that do less than PyTorch's, and what they do not do.
PARTLY = {
    "torch.amp.autocast": "converts operands on the CPU only; converted weights are not stored",
    "torch.autocast": "converts operands on the CPU only; converted weights are not stored",
    "torch.compile": "fuses elementwise operators; options have no effect",
    "torch.compiler.compile": "fuses elementwise operators; options have no effect",
    "torch.from_file": "reads the file; its memory is not shared",
    "torch.func.functionalize": "gives back the function, whose results are the same",
    "torch.func.vmap": "runs the function once for each slice",
    "torch.fork": "makes the call at once",
    "torch.fx.Tracer": "`concrete_args` may not be nests of values",
    "torch.hub.load_state_dict_from_url": "reads tensors and plain values only",
    "torch.jit.fork": "makes the call at once",
    "torch.jit.script": "gives back the function or module, which runs as it is",
    "torch.jit.trace": "gives back the function or module, which runs as it is",
    "torch.load": "tensors of all devices are loaded to the host; old files, from before PyTorch 1.6, are not read",
    "torch.nn.DataParallel": "calls the module: there is one device",
    "torch.nn.attention.flex_attention.flex_attention": "computes all scores, also those that are masked out",
    "torch.optim.SparseAdam": "takes dense gradients too, of which zeros are skipped",
    "torch.overrides.TorchFunctionMode": "sees operators and functions that are calls of operators; functions written in Python are not seen as a whole",
    "torch.quasirandom.SobolEngine": "has 1,111 of 21,201 dimensions; scrambled points are other ones than PyTorch's",
    "torch.set_default_device": "holds for all threads, and for functions that make tensors from sizes or data",
    "torch.utils.benchmark.Colorize": "tables have no colours",
    "torch.utils.benchmark.Timer": "times statements of Python; instructions are not counted",
    "torch.utils.data.runtime_validation": "gives back the function: annotations are not checked",
    "torch.vmap": "runs the function once for each slice",
}
# Areas that the share of names leaves out: devices, several processes, export and quantisation.
OUTSIDE = ("cuda", "mps", "xpu", "accelerator", "distributed", "export", "onnx", "package", "nested", "sparse", "jit", "fx", "backends")


def documented():
    for line in (HERE / "documented.txt").read_text().splitlines():
        module, _, names = line.partition(":")
        yield module, names.split()


def owner(module):
    return torch.Tensor if module == "torch.Tensor" else importlib.import_module(module)


def main():
    rows, absent, inside, present = [], [], 0, 0
    for module, names in documented():
        found = owner(module)
        missing = [name for name in names if placeholders.is_placeholder(getattr(found, name, placeholders.Constant("")))]
        partly = [name for name in names if f"{module}.{name}" in PARTLY]
        rows.append(f"| `{module}` | {len(names)} | {len(names) - len(missing) - len(partly)} | {len(partly)} | {len(missing)} |")
        if missing:
            absent.append(f"- `{module}`, since {placeholders.reason(module)}: {', '.join(f'`{name}`' for name in missing)}")
        if module.split(".")[1:2] not in [[part] for part in OUTSIDE]:
            inside, present = inside + len(names), present + len(names) - len(missing)
    print(HEAD, end="")
    print(f"Outside of {', '.join(OUTSIDE)}, {present} of {inside} names are here, {present / inside:.0%}.\n")
    print("| module | names | here | partly | not |\n|---|---|---|---|---|")
    print("\n".join(rows))
    print("\n## Partly\n\n| name | difference |\n|---|---|")
    print("\n".join(f"| `{name}` | {reason} |" for name, reason in sorted(PARTLY.items())))
    print("\n## Not here\n")
    print("\n".join(absent))


main()
