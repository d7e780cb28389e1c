"""What `import` costs: nothing that is slow to import comes with it, and nothing that was not requested."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = {"dataclasses", "inspect", "multiprocessing", "numpy", "torch", "typing", "unittest", "argparse", "random", "json"}


def loaded(program):
    """The modules that a fresh interpreter has after the program."""
    script = f"import sys; before = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    # It looks for modules where this one does.
    line = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{script}"]
    return set(subprocess.run(line, check=True, capture_output=True, text=True).stdout.split())


def test_the_package_comes_alone():
    names = loaded("import flambeau")
    assert not names & SLOW
    assert not {name for name in names if name.startswith(("flambeau.nn", "flambeau.optim", "flambeau.utils.data"))}


@pytest.mark.parametrize("name", ["flambeau.nn", "flambeau.optim", "flambeau.utils.data"])
def test_modules_are_light(name):
    names = loaded(f"import {name}")
    assert name in names and not names & SLOW


def test_attributes_import():
    names = loaded("import flambeau; flambeau.optim.SGD")
    assert "flambeau.optim" in names and "flambeau.utils.data" not in names
