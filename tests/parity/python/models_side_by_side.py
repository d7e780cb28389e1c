"""Models written once, for PyTorch, run with the import changed: outputs, losses, gradients and training agree.

    python tests/parity/python/models_side_by_side.py [--types float64,float32]

The Python that runs this needs torch and flambeau. The texts in `models/` say `torch` throughout; here they are run as they
are, and with `flambeau` in the lines that import. Weights go from PyTorch to here by a file of `torch.save`.

Tensors are compared whole, by the Euclidean norm of their difference relative to their own. A computation in floating point is
off by its condition times its length times the unit roundoff, and the first two are the model's: so one factor, GROWTH, bounds
both types, times 2^-53 or 2^-24. Where a model amplifies more than that within float32, so does PyTorch: there ours may be as
far from what 64 bits give as PyTorch's is, times SLACK, since of two results with the same error either may be the nearer.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import tempfile
import types

import torch

import flambeau
from convert import here, tensor_there

MODELS = pathlib.Path(__file__).resolve().parent / "models"
STEPS = 5
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24}
GROWTH = 2.0**12
# Five steps of an optimiser multiply the difference of the first. Adam divides by the size of a gradient, and that of the bias
# of an attention's keys is rounding alone, since it moves all scores of a row alike.
TRAINED = 16.0
SLACK = 4.0
SEED = 0


def imported(name, library):
    """The text of a model as a module, with `library` instead of PyTorch in the import lines."""
    text = (MODELS / f"{name}.py").read_text()
    text = re.sub(r"^import torch$", f"import {library} as torch", text, flags=re.MULTILINE)
    text = re.sub(r"^(import|from) torch\b(?! as)", rf"\1 {library}", text, flags=re.MULTILINE)
    module = types.ModuleType(f"{name} in {library}")
    exec(compile(text, str(MODELS / f"{name}.py"), "exec"), module.__dict__)
    return module


def sentences(count=6, length=10, words=50):
    """Words of whole sentences, and of some that end early, in 0."""
    lengths = torch.randint(length // 2, length + 1, (count, 1))
    lengths[0] = length
    return torch.randint(1, words, (count, length)) * (torch.arange(length) < lengths)


def following(words):
    return torch.cat([words[:, 1:], torch.zeros_like(words[:, :1])], 1)


def language():
    words = sentences()
    return words, following(words)


# What makes the model, what its loss is, and what goes in.
CASES = {
    "ResNet-18": ("resnet", "make", "loss", lambda: (torch.randn(4, 3, 64, 64), torch.randint(10, (4,)))),
    "Transformer encoder, causal": ("encoder", "make", "loss", language),
    "Transformer encoder, classes": ("encoder", "make_classifier", "loss_of_class", lambda: (sentences(), torch.randint(50, (6,)))),
    "LSTM": ("recurrent", "make", "loss", lambda: (torch.randint(40, (6, 9)), torch.randint(5, (6,)))),
    "GRU": ("recurrent", "make_gru", "loss", lambda: (torch.randint(40, (6, 9)), torch.randint(5, (6,)))),
}


def in_type(value, dtype):
    return value.to(dtype) if value.is_floating_point() else value


def plain(tensor):
    return tensor.detach() if isinstance(tensor, torch.Tensor) else tensor_there(tensor)


def state(model):
    return {name: plain(value).clone() for name, value in model.state_dict().items()}


def course(module, model, loss, given):
    """All that is compared, by name: evaluation, then training."""
    found = {}
    model.eval()
    found["eval: output"] = plain(model(given[0]))
    found["eval: loss"] = plain(loss(model, *given))
    with module.torch.no_grad():
        found["no_grad: output"] = plain(model(given[0]))
    model.train()
    found["train: output"] = plain(model(given[0]))
    first = loss(model, *given)
    first.backward()
    found["train: loss"] = plain(first)
    found |= {f"gradient: {name}": plain(p.grad) for name, p in model.named_parameters()}
    found |= {f"buffer: {name}": plain(b).clone() for name, b in model.named_buffers()}
    optimizer = module.optimizer(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        error = loss(model, *given)
        error.backward()
        optimizer.step()
        found[f"step {step}: loss"] = plain(error)
    return found | {f"after {STEPS} steps: {name}": value for name, value in state(model).items()}


def distance(a, b):
    """Of two tensors, relative to the second; whole numbers must be the same."""
    if a.shape != b.shape or not b.is_floating_point():
        return 0.0 if a.shape == b.shape and torch.equal(a, b) else float("inf")
    a, b = a.double(), b.double()
    return float((a - b).norm() / b.norm()) if bool(b.norm() > 0) else float((a - b).norm())


def carried(model, made, folder):
    """The same weights in our model, by a file."""
    torch.save(model.state_dict(), folder / "weights.pt")
    made.load_state_dict(flambeau.load(folder / "weights.pt"))
    assert list(made.state_dict()) == list(model.state_dict()), "the names of the state differ"
    return made


def compared(name, dtype, folder):
    """The largest error of each stage of a run, and the values beyond their bounds."""
    source, make, loss, given = CASES[name]
    theirs, ours = imported(source, "torch"), imported(source, "flambeau")
    torch.manual_seed(SEED)
    model, given = getattr(theirs, make)(), given()
    wide = getattr(theirs, make)().double()
    wide.load_state_dict(model.state_dict())
    model = model.to(dtype)
    made = carried(model, getattr(ours, make)().to(getattr(flambeau, str(dtype)[6:])), folder)
    given = tuple(in_type(value, dtype) for value in given)
    a = course(theirs, model, getattr(theirs, loss), given)
    b = course(ours, made, getattr(ours, loss), tuple(here(value) for value in given))
    exact = course(theirs, wide, getattr(theirs, loss), tuple(in_type(value, torch.float64) for value in given))
    assert a.keys() == b.keys(), "names differ"
    worst, faults = {}, []
    for name in a:
        apart, bound = distance(b[name], a[name]), GROWTH * UNIT[str(dtype)[6:]]
        if name.startswith(("step", "after")):
            bound *= TRAINED
        if dtype != torch.float64:
            bound = max(bound, SLACK * distance(a[name], exact[name]))
        stage = name.split(":")[0]
        worst[stage] = max(worst.get(stage, 0.0), apart)
        if not apart <= bound:
            faults.append(f"{name}: {apart:.1e} apart, which may be {bound:.1e}")
    return len(a), worst, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--types", type=lambda text: text.split(","), default=list(UNIT))
    options = parser.parse_args()
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            for dtype in options.types:
                count, worst, found = compared(name, getattr(torch, dtype), pathlib.Path(folder))
                told = ", ".join(f"{stage} {apart:.0e}" for stage, apart in worst.items() if not stage.startswith("step"))
                print(f"{name:28} {dtype}  {count} tensors; largest differences: {told}", flush=True)
                faults += len(found)
                for words in found[:10]:
                    print(f"    {words}")
    print("all agree" if faults == 0 else f"{faults} tensors differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
