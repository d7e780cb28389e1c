"""Evaluates one expression after the other in PyTorch and here, and says where values, printed forms or exceptions differ.

    python tests/parity/python/expressions.py [--filter TEXT]

The expressions stand in `expressions.txt`, one a line, written for `torch`; `x`, `i`, `b` and `e` are tensors of floating point
numbers (2 x 3), of integers, of truth values and of no elements. Text is compared with `torch` read as `flambeau`.
"""

import argparse
import pathlib
import sys
import warnings

import torch

import compare
import flambeau

LISTED = pathlib.Path(__file__).with_name("expressions.txt")


def names(space):
    """What an expression may use, fresh for each."""
    x = space.tensor([[1.5, -2.0, 0.25], [4.0, 0.0, -1.0]])
    return {"torch": space, "x": x, "i": space.tensor([[3, -1, 2], [0, 5, 7]]), "b": space.tensor([True, False, True]),
            "e": space.zeros(0, 3), "w": space.tensor([2.0, 3.0, 4.0], requires_grad=True), "F": space.nn.functional}


def value(text, space):
    try:
        return eval(text, names(space)), None
    except Exception as error:
        return None, error


def differences(text):
    theirs, error = value(text, torch)
    ours, my_error = value(text, flambeau)
    found = compare.refusals(error, my_error)
    if found or error is not None:
        return found
    if isinstance(theirs, str):
        theirs = theirs.replace("torch", "flambeau")
        return [] if theirs == ours else [("text", f"{theirs!r} there, {ours!r} here")]
    if type(theirs).__module__.startswith("torch") and not isinstance(theirs, (torch.Tensor, torch.dtype, torch.Size)):
        same = str(theirs).replace("torch", "flambeau") == str(ours)
        return [] if same else [("text", f"{theirs} there, {ours} here")]
    return compare.results(theirs, ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [line.strip() for line in LISTED.read_text().splitlines()]
    lines = [line for line in lines if line and not line.startswith("#") and options.filter in line]
    wrong = 0
    for line in lines:
        for kind, words in differences(line):
            wrong += 1
            print(f"{line}\n    {kind}: {words[:300]}")
    print(f"{len(lines)} expressions, {wrong} disagreements")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
