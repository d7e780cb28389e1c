"""A moment of `fuzz_readers.py` for each reader, and that it finds what it looks for."""

import pathlib
import re
import subprocess
import sys

import pytest

from fuzz_readers import FAULTY, READERS

PROGRAM = pathlib.Path(__file__).with_name("fuzz_readers.py")


def run(name, *arguments):
    command = [sys.executable, PROGRAM, "--reader", name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_values_or_errors_of_the_reader(name):
    done = run(name, "--seconds", 0, "--seed", 7, "--batch", 600)
    assert done.returncode == 0, done.stdout + done.stderr
    read, refused = map(int, re.search(r"(\d+) read, (\d+) refused, 0 found", done.stdout).groups())
    assert read > 20 and refused > 200


@pytest.mark.parametrize("name", [name for name in FAULTY if name != "faulty-hang"])
def test_faults_are_found(name):
    done = run(name, "--batch", 2)
    assert done.returncode == 1 and "1 found" in done.stdout, done.stdout + done.stderr
