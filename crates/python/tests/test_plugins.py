"""Plug-ins in C, compiled by the system's compiler and loaded into the interpreter."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess
import sys

import pytest

import flambeau as fb

CAPI = pathlib.Path(__file__).resolve().parents[2] / "capi"

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("cc") is None or not CAPI.exists(), reason="needs a C compiler and the repository"
)


def compiled(folder: pathlib.Path, name: str, header: str = "include") -> pathlib.Path:
    library = folder / f"{name}.so"
    source = CAPI / "tests" / "plugins" / f"{name}.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-I", CAPI / header, source, "-o", library], check=True)
    return library


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    # With the header of version 1.0, so that what these tests show, they show of a plug-in that is older than the library.
    library = compiled(tmp_path_factory.mktemp("plugins"), "cube", "tests/plugins/version_1_0")
    fb.ops.load_library(library)
    return library


def test_a_plug_in_computes(cube: pathlib.Path) -> None:
    result = ctypes.c_double()
    function = ctypes.CDLL(str(cube)).c_plugin_cube_of
    assert function(ctypes.c_double(-3.0), ctypes.byref(result)) == 0
    assert result.value == -27.0


def test_it_is_started_once(cube: pathlib.Path) -> None:
    fb.ops.load_library(str(cube))
    assert str(cube.resolve()) in fb.ops.loaded_libraries()


def test_errors_name_the_path_and_the_cause(cube: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(OSError, match="no_such_plugin.so.*No such file"):
        fb.ops.load_library("no_such_plugin.so")
    text = tmp_path / "text.so"
    text.write_text("not a library")
    with pytest.raises(OSError, match=r"text\.so: .+"):
        fb.ops.load_library(text)
    doubled = compiled(tmp_path, "doubled")
    with pytest.raises(RuntimeError) as caught:
        fb.ops.load_library(doubled)
    assert str(cube.resolve()) in str(caught.value) and str(doubled.resolve()) in str(caught.value)


def test_operators_of_a_plug_in_are_found_by_name(cube: pathlib.Path) -> None:
    if not hasattr(fb.ops, "__getattr__"):
        pytest.skip("operators have no namespaces in Python here")
    x = fb.tensor([1.0, 2.0], requires_grad=True)
    y = fb.ops.c_plugin.cube(x)
    assert y.tolist() == [1.0, 8.0]
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_operators_of_a_plug_in_have_what_all_have(cube: pathlib.Path) -> None:
    op = fb.ops.c_plugin.cube.default
    x = fb.tensor([[1.0, 2.0], [0.5, -3.0]], dtype=fb.float64, requires_grad=True)
    assert set(fb.library.opcheck(op, (x,)).values()) == {"SUCCESS"}
    assert fb.autograd.gradcheck(op, (x,)) and fb.autograd.gradgradcheck(op, (x,))
    with fb.profiler.profile() as prof:
        op(x)
    assert "c_plugin::cube" in {average.key for average in prof.key_averages()}
    assert fb.autograd.functional.hvp(lambda x: op(x).sum(), x, fb.ones_like(x))[1].tolist() == (6 * x).tolist()
    before = fb._flambeau._vmap_loops().get("c_plugin::cube", 0)
    with pytest.warns(UserWarning, match="batching rule for c_plugin::cube"):
        gradients = fb.func.vmap(fb.func.grad(lambda x: op(x).sum()))(x)
    assert gradients.tolist() == (3 * x * x).tolist()
    assert fb._flambeau._vmap_loops()["c_plugin::cube"] > before


def test_operators_are_found_that_were_looked_up_before_they_were_loaded(cube: pathlib.Path) -> None:
    code = f"""
import flambeau as fb
assert fb.ops.aten.add and not hasattr(fb.ops.c_plugin, "cube") and dir(fb.ops.c_plugin) == []
fb.ops.load_library({str(cube)!r})
assert fb.ops.c_plugin.cube(fb.tensor([2.0])).tolist() == [8.0]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_extension_modules_get_the_table() -> None:
    capsule = fb._flambeau._C_API
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(capsule, b"flambeau._flambeau._C_API")
    size = ctypes.cast(table, ctypes.POINTER(ctypes.c_size_t))[0]
    assert size > 300 and ctypes.cast(table + 8, ctypes.POINTER(ctypes.c_uint32))[0] == 1


def test_torch_ops_loads_them_too(cube: pathlib.Path) -> None:
    code = f"""
import flambeau.torch; flambeau.torch.install()
import torch
torch.ops.load_library({str(cube)!r})
try: torch.ops.load_library("missing.so")
except OSError as error: assert "missing.so" in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
