"""Replays PyTorch's own operator database against this library, and says operator by operator where the two disagree.

    python tests/parity/replay.py [--only add.Tensor sum] [--samples 20] [--each 30] [--vary 6] [--shown 3] [--seed 0]

The Python that runs this needs torch, expecttest and pytest. It gets the list of operators from the example `parity`, runs the
database's sample and error inputs in several types under a dispatch mode that keeps every call of one of them (below
composites and derivatives too), and varies those calls: odd layouts, special values, empty and 0-d sizes, other types,
extreme arguments, operands that overlap, in-place and `out=` variants. Each call then runs in PyTorch by itself, and its
arguments (with strides, offsets and what they share), its results or its refusal, and the memory afterwards go to a file.

The example reads the file, makes the same calls, and compares: kinds of errors not their words, types, sizes, strides, which
results are views, values by the tolerances of `torch.testing.assert_close` (exactly for whole numbers), and every byte of the
arguments' memory. Values that differ agree if they are within the tolerances of what PyTorch gives for the same arguments in 64 bits, or
as near to that as PyTorch's are, or nearer than what other arguments give, which differ from these by the tolerances: where the terms of a
sum cancel, the tolerance is that of the terms. A difference that is meant is a row of the table in `docs/differences.md`, by operator, kind
and origin, and is counted apart, and rows that cover no case are named. The exit status says whether another one was found.
`PARITY_TRACE=1` names each call before it is made.
"""

import argparse
import collections
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import traceback

import torch

from calls import REFUSALS, Operator, Unwritable, copy, written, written_gradients
from record import record
from vary import operator_variants, variations

ROOT = pathlib.Path(__file__).resolve().parents[2]
# With the features that tests have, so that the operators are not compiled again.
BUILD = ["cargo", "build", "--quiet", "--workspace", "--example", "parity"]
PARITY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/examples/parity"
# What PyTorch crashes or hangs on would end the script: variations run in children, which end after this time of the processor, so that
# the cases are the same however busy it is, and after ten times as much in any case.
SECONDS = 60


def operators():
    """Ours that PyTorch has too, by name; the others are named."""
    schemas = subprocess.run([PARITY, "schemas"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    ours = [Operator(schema) for schema in schemas.splitlines()]
    both = {op.name: op for op in ours if op.torch is not None and op.bind([], {}) is not None}
    left = sorted(op.name for op in ours if op.name not in both)
    print(f"{len(both)} operators in common; not in PyTorch with these parameters: {', '.join(left) or 'none'}")
    return both


def attempt(file, operator, values, origin):
    """Writes one call, if the file can hold it."""
    overlapping = origin == "shared"
    try:
        apart = [copy([v])[0] if isinstance(v, torch.Tensor) else v for v in values] if overlapping else None
        file.write(written(operator, values, origin, overlapping, apart))
        return True
    except (Unwritable, MemoryError):
        return False
    except Exception as error:  # a case that cannot be put together says nothing; how it failed may
        print(f"{operator.name}: not written: {str(error).splitlines()[0][:120]}")
        return False


def attempt_gradients(file, operator, values):
    try:
        case = written_gradients(operator, values)
    except (Unwritable, *REFUSALS):
        return
    if case is not None:
        file.write(case)


def vary_all(path, calls, all_operators, options):
    """The variations of the calls of one operator, in a child."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
        with open(path, "wb", buffering=0) as file:
            for operator, values, _ in calls:
                attempt_gradients(file, operator, values)
                made = variations(operator, values, options.vary)
                for origin, varied in [("", values), *made]:
                    if origin:
                        attempt(file, operator, varied, origin)
                        if origin in ("layouts", "sizes"):
                            attempt_gradients(file, operator, varied)
                    # A twin of a variation too, every few.
                    if not origin or random.random() < 0.3:
                        for twin, kind, args in operator_variants(all_operators, operator, varied):
                            attempt(file, twin, args, kind)
                            for o, again in variations(twin, args, 1 if kind == "in place" else 0):
                                attempt(file, twin, again, o)
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def write_cases(path, both, options):
    calls = record(both, options.samples, options.each, options.only)
    if options.only:
        calls = [call for call in calls if call[0].name in options.only]
    groups = collections.defaultdict(list)
    for call in calls:
        groups[call[0].name].append(call)
    never = "of others not selected" if options.only else ", ".join(sorted(set(both) - set(groups)))
    print(f"{len(calls)} calls of {len(groups)} operators; never called: {never}")
    with open(path, "wb") as file:
        for name, group in sorted(groups.items()):
            for operator, values, origin in group:
                attempt(file, operator, values, origin)
            part = path.with_suffix(".part")
            part.unlink(missing_ok=True)
            random.seed(options.seed)
            torch.manual_seed(options.seed)
            _, status = os.waitpid(vary_all(part, group, both, options), 0)
            if status:
                print(f"{name}: PyTorch ended with status {status} while it was varied")
            if part.exists():
                file.write(part.read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", help="names of operators")
    parser.add_argument("--samples", type=int, default=20, help="sample inputs for an entry and a type")
    parser.add_argument("--each", type=int, default=30, help="calls kept for an operator and a type")
    parser.add_argument("--vary", type=int, default=6, help="variations of a call")
    parser.add_argument("--shown", type=int, default=3, help="disagreements printed for an operator and a kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="replays the file of the last run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = ROOT / "target" / "parity.cases"
    subprocess.run(BUILD, cwd=ROOT, check=True)
    if not options.keep:
        write_cases(path, operators(), options)
    # Rows that cover no case can go, if all operators were called.
    rows = [] if options.only else ["rows"]
    run = subprocess.run([PARITY, "replay", path, ROOT / "docs" / "differences.md", str(options.shown), *rows], cwd=ROOT)
    sys.exit(run.returncode)


if __name__ == "__main__":
    main()
