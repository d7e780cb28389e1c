"""Measures what `import torch, torchvision` takes: the time until it is done, and the most memory of the process.

    python tests/compat/imports.py [--against PYTHON]

Each interpreter is started several times, after one time that does not count; the minimum of each number is printed.
"""

import argparse
import subprocess
import sys

ROUNDS = 7
# Prints seconds and MiB. The time includes the start of the interpreter, and for Flambeau that of `python -m flambeau.torch`.
PROGRAM = "import torch, torchvision, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
NOTHING = PROGRAM.replace("torch, torchvision, ", "")
TIMED = """
import subprocess, sys, time
start = time.perf_counter()
memory = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout
print(time.perf_counter() - start, memory)
"""


def measure(command):
    """Seconds and MiB of one run, whose time a small process takes."""
    done = subprocess.run([sys.executable, "-c", TIMED, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command[:3])} failed:\n{done.stderr}")
    return [float(number) for number in done.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="PYTHON", help="an interpreter with PyTorch and torchvision")
    against = parser.parse_args().against
    sides = {"Python alone": [sys.executable, "-c", NOTHING], "Flambeau": [sys.executable, "-m", "flambeau.torch", "-c", PROGRAM]}
    if against is not None:
        sides["PyTorch"] = [against, "-c", PROGRAM]
    runs = {name: [] for name in sides}
    for _ in range(ROUNDS + 1):
        for name, command in sides.items():
            runs[name].append(measure(command))
    print("| `import torch, torchvision` | seconds | MiB |\n|---|---|---|")
    for name, found in runs.items():
        seconds, memory = (min(column) for column in zip(*found[1:]))
        print(f"| {name} | {seconds:.2f} | {memory:.0f} |")


if __name__ == "__main__":
    main()
