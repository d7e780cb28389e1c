"""Shares memory with NumPy and, where it is installed, with PyTorch: nothing is copied, so what one writes the others read."""

from __future__ import annotations

import argparse
import sys

import flambeau
from flambeau import nn


def show(what: str, value: object) -> None:
    print(f"{what:58} {value}")


def with_numpy() -> None:
    import numpy as np

    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = flambeau.from_numpy(array)
    array[0, 0] = 100
    show("NumPy wrote 100, the tensor reads", tensor[0, 0].item())
    tensor[1, 2] = -1
    show("the tensor wrote -1, NumPy reads", array[1, 2])
    transposed = tensor.t()
    show("a transposed tensor as an array: shape, strides in bytes", (transposed.numpy().shape, transposed.numpy().strides))
    show("its memory is the array's", np.shares_memory(transposed.numpy(), array))
    del array
    show("the array's name is gone, the elements are not", tensor.sum().item())
    show("functions of NumPy take tensors", float(np.linalg.norm(flambeau.tensor([3.0, 4.0]))))

    constant = np.ones(3)
    constant.flags.writeable = False
    try:
        flambeau.from_numpy(constant).fill_(2)
    except (RuntimeError, ValueError, TypeError) as error:
        show("an array that may not be written to is refused", type(error).__name__)
    show("and still is", constant)


def with_pytorch() -> None:
    import torch

    theirs = torch.arange(4.0)
    ours = flambeau.from_dlpack(theirs)
    ours.mul_(10)
    show("the tensor multiplied by 10, PyTorch reads", theirs.tolist())
    back = torch.from_dlpack(ours)
    show("there and back is the same memory", back.data_ptr() == theirs.data_ptr())

    source, target = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    state = {name: flambeau.from_dlpack(tensor) for name, tensor in source.state_dict().items()}
    show("a state_dict of PyTorch's fits", target.load_state_dict(state))
    x = torch.randn(5, 3)
    expected, found = source(x).detach(), torch.from_dlpack(target(flambeau.from_dlpack(x)).detach())
    show("both layers then say the same, to within", f"{(expected - found).abs().max().item():.1e}")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, module, part in (("NumPy", "numpy", with_numpy), ("PyTorch", "torch", with_pytorch)):
        try:
            __import__(module)
        except ImportError:
            print(f"{name} is not installed, so that part is left out: pip install {module}", file=sys.stderr)
            continue
        print(f"--- {name}")
        part()


if __name__ == "__main__":
    main()
