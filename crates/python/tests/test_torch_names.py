"""`flambeau.torch`: programs that import torch, each in a process of its own, and the names that they find there."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import flambeau as fl

SOURCE = str(pathlib.Path(fl.__file__).resolve().parents[1])


def run(program, *arguments, before=("-m", "flambeau.torch", "-c")):
    command = [sys.executable, "-W", "error::DeprecationWarning", *before, textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SOURCE})


def check(program, *arguments):
    done = run(program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_trains_a_model():
    check(
        """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(0)
        x = torch.randn(64, 4)
        y = (x.sum(1) > 0).long()
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
        first = F.cross_entropy(model(x), y).item()
        for _ in range(20):
            for a, b in DataLoader(TensorDataset(x, y), batch_size=16):
                optimizer.zero_grad()
                F.cross_entropy(model(a), b).backward()
                optimizer.step()
        assert F.cross_entropy(model(x), y).item() < first / 2
        assert type(x).__name__ == "Tensor" and repr(x.shape) == "torch.Size([64, 4])" and str(x.dtype) == "torch.float32"
        assert x.type() == "torch.FloatTensor" and isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
        """
    )


def test_module_paths_are_pytorchs():
    check(
        """
        import torch
        import torch.nn.modules.batchnorm
        from torch.nn import modules
        from torch.nn.modules import batchnorm, utils
        from torch.nn.modules.batchnorm import _BatchNorm
        from torch.nn.modules.conv import _ConvNd
        from torch.nn.modules.module import _IncompatibleKeys
        from torch.nn.modules.utils import _pair, _ntuple
        from torch.nn.common_types import _size_2_t
        from torch.nn.parameter import Parameter, UninitializedParameter
        from torch.nn.utils.rnn import pack_padded_sequence
        from torch.optim.lr_scheduler import _LRScheduler
        from torch.optim.optimizer import Optimizer, ParamsT
        from torch.utils._pytree import tree_map
        from torch.utils.data.distributed import DistributedSampler
        from torch.utils.data.dataloader import default_collate
        from torch.utils.hooks import RemovableHandle
        from torch.utils.model_zoo import load_url
        from torch.distributions.normal import Normal
        from torch.distributions.utils import broadcast_all
        from torch.types import Device
        from torch.torch_version import TorchVersion
        from torch.jit import Final

        assert batchnorm._BatchNorm is _BatchNorm and issubclass(torch.nn.BatchNorm2d, _BatchNorm)
        assert issubclass(torch.nn.Conv2d, _ConvNd) and _pair(3) == (3, 3)
        assert torch.nn.Parameter is Parameter and torch.nn.modules is modules
        assert TorchVersion("2.15.0") == torch.__version__ and torch.__version__ >= "2.0" and torch.__version__ > (1, 13, 1)
        assert torch.torch.Tensor is torch.Tensor
        """
    )


def test_absent_names_fail_only_when_they_are_called():
    check(
        """
        import torch
        import torch.distributed as dist
        from torch.distributed.tensor import DTensor
        from torch.nn.parallel import DistributedDataParallel

        assert issubclass(DistributedDataParallel, torch.nn.Module)
        assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not torch.backends.mps.is_available()
        assert not dist.is_available() and not dist.is_initialized()
        for missing, words in (
            (lambda: torch.onnx.export(None), "torch.onnx.export: there is no exporter"),
            (lambda: DTensor(None), "DTensor: flambeau.distributed does not have it yet"),
            (lambda: torch.jit.save(None, "x"), "torch.jit.save: programs run as they are"),
        ):
            try:
                missing()
            except NotImplementedError as error:
                assert words in str(error), error
            else:
                raise AssertionError(words)
        assert not hasattr(torch, "no_such_name") and not hasattr(torch.nn, "NoSuchLayer")
        try:
            import torch.no_such_module
        except ModuleNotFoundError:
            pass
        else:
            raise AssertionError("torch.no_such_module")
        """
    )


def test_every_public_name_exists():
    check(
        """
        import importlib
        from flambeau.torch import names

        import torch

        absent = []
        for module in names.modules():
            if any(part.startswith("_") for part in module.split(".")) or module == "torch.Tensor":
                continue
            found = importlib.import_module(module)
            absent += [f"{module}.{name}" for name in names.of(module) if not name.startswith("_") and not hasattr(found, name)]
        absent += [f"torch.Tensor.{name}" for name in names.of("torch.Tensor") if not hasattr(torch.Tensor, name)]
        assert not absent, absent[:20]
        """
    )


def test_it_refuses_where_pytorch_is_loaded(tmp_path):
    (tmp_path / "torch.py").write_text("")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import torch; import flambeau.torch as t; t.install()"
    done = run(program, str(tmp_path), before=("-c",))
    assert done.returncode != 0 and "PyTorch itself is already loaded" in done.stderr


def test_install_and_uninstall_change_names_only():
    done = run(
        """
        import flambeau
        import flambeau.torch
        from importlib.util import find_spec

        flambeau.torch.install()
        flambeau.torch.install()
        import torch
        assert torch.zeros is flambeau.zeros and str(flambeau.int64) == "torch.int64" and hasattr(torch.Tensor, "const_data_ptr")
        flambeau.torch.uninstall()
        assert str(flambeau.int64) == "flambeau.int64" and not flambeau.torch.is_installed() and not hasattr(flambeau.Tensor, "const_data_ptr")
        """,
        before=("-c",),
    )
    assert done.returncode == 0, done.stderr


def test_programs_get_their_arguments(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, helper, torch; print(sys.argv[1:], __name__, helper.x.tolist())")
    (tmp_path / "helper.py").write_text("import torch\nx = torch.ones(1)")
    done = subprocess.run(
        [sys.executable, "-m", "flambeau.torch", str(program), "a", "--b"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.stdout.strip() == "['a', '--b'] __main__ [1.0]", done.stderr


def test_patches_of_torch_reach_the_library():
    check(
        """
        import torch
        import flambeau
        torch.nn.functional.relu = lambda x: "patched"
        assert flambeau.nn.functional.relu(None) == "patched"
        """
    )


def test_devices_as_contexts_and_defaults():
    check(
        """
        import torch
        with torch.device("meta"):
            layer, x = torch.nn.Linear(2, 3), torch.zeros(2)
        assert layer.weight.is_meta and x.is_meta and torch.zeros(1).device.type == "cpu"
        torch.set_default_device("meta")
        assert torch.get_default_device().type == "meta" and torch.ones(2).is_meta
        torch.set_default_device(None)
        assert not torch.ones(2).is_meta and torch.get_default_device() == torch.device("cpu")
        """
    )


def test_save_and_load_by_archives(tmp_path):
    check(
        """
        import io, sys
        import torch
        from collections import OrderedDict

        x = torch.arange(6.0).reshape(2, 3)
        layer = torch.nn.Linear(3, 2)
        value = {"x": x, "view": x.t(), "size": x.shape, "dtype": torch.int64, "p": layer.weight, "state": layer.state_dict(), "n": [1, "a"]}
        for target in (io.BytesIO(), sys.argv[1]):
            torch.save(value, target)
            if hasattr(target, "seek"):
                target.seek(0)
            back = torch.load(target)
            assert back["x"].equal(x) and back["view"].equal(x.t()) and back["size"] == x.shape and back["n"] == [1, "a"]
            assert back["x"].data_ptr() == back["view"].data_ptr() and isinstance(back["p"], torch.nn.Parameter)
            assert back["dtype"] is torch.int64 and isinstance(back["state"], OrderedDict)
        torch.save(layer, sys.argv[1])
        try:
            torch.load(sys.argv[1])
        except Exception as error:
            assert "Linear was not an allowed global" in str(error)
        else:
            raise AssertionError("a module was loaded by weights_only")
        assert torch.load(sys.argv[1], weights_only=False).weight.equal(layer.weight)
        """,
        str(tmp_path / "file.pt"),
    )


def test_a_torch_function_is_called_by_either_name():
    check(
        """
        import torch

        class Logged(torch.Tensor):
            calls = []

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.calls.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        x = torch.ones(2).as_subclass(Logged)
        assert type(x + 1) is Logged and type(torch.exp(x)) is Logged and Logged.calls == ["add", "exp"]
        """
    )


@pytest.mark.parametrize("name", ["uint16", "complex64", "float8_e4m3fn", "quint8"])
def test_dtypes_without_tensors_can_be_named(name):
    check(f"import torch; d = torch.{name}; assert d == torch.{name} and repr(d) == 'torch.{name}' and {{d: 1}}[d] == 1")


def test_the_import_takes_little_time():
    program = "import time; t = time.perf_counter(); import flambeau.torch; flambeau.torch.install(); import torch; print(time.perf_counter() - t)"
    times = []
    for _ in range(3):
        done = run("import flambeau; " + program, before=("-c",))
        assert done.returncode == 0, done.stderr
        times.append(float(done.stdout))
    # The names of all modules are a file of half a megabyte; a debug build of the library does not change the time.
    assert min(times) < 0.5
