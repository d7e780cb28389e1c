"""Programs written for PyTorch print what they print with PyTorch: `tests/compat` has them and the answers."""

import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

import flambeau as fl

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "compat"
SOURCE = str(pathlib.Path(fl.__file__).resolve().parents[1])


def differences(expected, found, path=""):
    """Where two values of JSON differ by more than rounding."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected.keys() | found.keys():
            if key not in expected or key not in found:
                yield f"{path}/{key}: only one has it"
            else:
                yield from differences(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, pair in enumerate(zip(expected, found)):
            yield from differences(*pair, f"{path}/{index}")
    elif isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        same = expected == found or (math.isnan(expected) and math.isnan(found))
        if not same and not math.isclose(expected, found, rel_tol=1e-8, abs_tol=1e-10):
            yield f"{path}: expected {expected} but got {found}"
    elif expected != found:
        yield f"{path}: expected {expected} but got {found}"


@pytest.mark.parametrize("program", sorted(path.stem for path in (FOLDER / "programs").glob("*.py")))
def test_a_program_prints_what_it_does_with_pytorch(program):
    done = subprocess.run(
        [sys.executable, "-m", "flambeau.torch", str(FOLDER / "programs" / f"{program}.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads((FOLDER / "answers" / f"{program}.json").read_text())
    found = list(differences(expected, json.loads(done.stdout)))
    assert not found, found[:20]


def test_pages_of_names_are_current():
    made = subprocess.run(
        [sys.executable, str(FOLDER / "table.py")], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SOURCE}
    )
    assert made.returncode == 0, made.stderr
    page = FOLDER.parents[1] / "docs" / "compatibility.md"
    assert page.read_text() == made.stdout, "run `python tests/compat/table.py > docs/compatibility.md`"
