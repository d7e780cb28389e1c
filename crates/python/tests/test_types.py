"""Types: mypy finds nothing to complain of in the package, and in a program that uses it what is wrong and only that."""

import os
import pathlib
import subprocess
import sys

import pytest

import flambeau as fl

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCE = pathlib.Path(fl.__file__).resolve().parents[1]

# Each `type: ignore` names the error that must be there; one that is not there is an error itself.
PROGRAM = '''
from typing import Any

from typing_extensions import assert_type

import flambeau as fl
import flambeau.nn.functional as F
from flambeau import nn

x = fl.randn(2, 3, requires_grad=True)
assert_type(x, fl.Tensor)
assert_type(x @ x.t() + 1, fl.Tensor)
assert_type(x.shape.numel(), int)
assert_type(x.max(0).values, fl.Tensor)
assert_type(x[0, None, ..., 1:], fl.Tensor)
assert_type(fl.einsum("ij,kj->ik", x, x), fl.Tensor)
assert_type(fl.meshgrid(x, x, indexing="ij"), tuple[fl.Tensor, ...])
assert_type(fl.special.erf(x), fl.Tensor)
assert_type(fl.linalg.vector_norm(x), fl.Tensor)
assert_type(F.mse_loss(x, x), fl.Tensor)
assert_type(fl.autograd.grad(x.sum(), x), tuple[fl.Tensor, ...])

model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
optimizer = fl.optim.Adam(model.parameters(), lr=1e-3)
with fl.no_grad():
    model(x)
fl.save(model.state_dict(), "there")


class Double(fl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: fl.Tensor) -> fl.Tensor:
        return value * 2


x.reshape("2")  # type: ignore[arg-type]
x.sum(keepdim="no")  # type: ignore[call-overload]
fl.zeros(2, dtype=3)  # type: ignore[call-overload]
fl.cat(1)  # type: ignore[arg-type]
F.mse_loss(x)  # type: ignore[call-arg]
nn.Linear("3", 4)  # type: ignore[arg-type]
x.nothing  # type: ignore[attr-defined]
with fl.no_grad(1, 2):  # type: ignore[call-arg]
    pass
'''


def run(*arguments, cwd=ROOT):
    pytest.importorskip("mypy", reason="mypy is not installed")
    cache = ROOT / "target" / "mypy"
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(SOURCE)})


def test_the_package_is_well_typed():
    done = run("--config-file", str(ROOT / "pyproject.toml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_checked_by_the_stubs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\npython_version = 3.10\n")
    done = run("--follow-imports", "silent", str(program), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
