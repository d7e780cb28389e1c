"""torch itself: what PyTorch has at the top beside the names that Flambeau has there too."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._methods import TYPE_NAMES
from flambeau.torch.shims import foreach, legacy
from flambeau.torch.shims.older import *  # noqa: F403
from flambeau.torch.shims.serialization import load as load, save as save
from flambeau.torch.shims.checks import *  # noqa: F403
from flambeau.torch.shims.determinism import *  # noqa: F403
from flambeau.torch.shims.symbols import *  # noqa: F403
from flambeau.torch.shims.torch_version import TorchVersion as TorchVersion, __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Function = Any

# What has precedence over Flambeau's own functions: files are PyTorch's archives here.
OVERRIDES = ("__version__", "load", "save")
AUTOCAST = ("get_autocast_dtype", "is_autocast_cache_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled")
has_mkl = has_lapack = has_openmp = has_spectral = False
has_mps = has_cuda = has_cudnn = False


def compile(model: Any = None, **options: Any) -> Any:
    """The model or function with its elementwise operators fused, `flambeau.compile`; a decorator where none is given."""
    return flambeau.compile(model, **options)


def is_autocast_cpu_enabled() -> bool:
    """Whether operands on the CPU are converted."""
    return flambeau.amp.is_autocast_enabled("cpu")


def is_autocast_ipu_enabled() -> bool:
    """False: there is no such device."""
    return False


is_autocast_xla_enabled = is_autocast_ipu_enabled


def get_autocast_cpu_dtype() -> flambeau.dtype:
    """The dtype that operands on the CPU are converted to."""
    return flambeau.amp.get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> flambeau.dtype:
    """float16."""
    return flambeau.amp.get_autocast_dtype("cuda")


get_autocast_ipu_dtype = get_autocast_xla_dtype = get_autocast_gpu_dtype


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Begins or ends the conversions on the CPU."""
    flambeau.amp.autocast_mode.set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: flambeau.dtype) -> None:
    """Sets the dtype that operands on the CPU are converted to."""
    flambeau.amp.autocast_mode.set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: flambeau.dtype) -> None:
    """Sets what `get_autocast_gpu_dtype` says; nothing is converted there."""
    flambeau.amp.autocast_mode.set_autocast_dtype("cuda", dtype)


def set_autocast_ipu_enabled(enabled: bool) -> None:
    """Changes nothing: there is no such device."""


set_autocast_xla_enabled = set_autocast_ipu_dtype = set_autocast_xla_dtype = set_autocast_ipu_enabled


def clear_autocast_cache() -> None:
    """Forgets nothing."""


def autocast_increment_nesting() -> int:
    """Counts a context."""
    state = flambeau.amp.autocast_mode._state
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Ends the count of a context."""
    state = flambeau.amp.autocast_mode._state
    state.nesting -= 1
    return state.nesting


def typename(obj: Any) -> str:
    """The name of a tensor's type, or of an object's class with its module."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", None) or type(obj).__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"


def is_storage(obj: Any) -> bool:
    """Whether it is a storage."""
    return isinstance(obj, flambeau.UntypedStorage)


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype, by a class of tensors or its name."""
    name = t.split(".")[-1] if isinstance(t, str) else t.__name__
    flambeau.set_default_dtype(getattr(flambeau, TYPE_NAMES[name]))


def get_device_module(device: Any = None) -> Any:
    """The module of a kind of device."""
    import importlib

    kind = "cpu" if device is None else flambeau.device(device).type
    return importlib.import_module(f"torch.{kind}")


def is_warn_always_enabled() -> bool:
    """False: a warning is given once."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Changes nothing: Python's filters say how often warnings are given."""


def set_flush_denormal(mode: bool) -> bool:
    """False: small numbers are never rounded to 0."""
    return False


def set_num_interop_threads(n: int) -> None:
    """Changes nothing: operators run one after the other."""


def get_num_interop_threads() -> int:
    """1: operators run one after the other."""
    return 1


def from_file(filename: str, shared: bool | None = None, size: int = 0, *, dtype: Any = None, **options: Any) -> Tensor:
    """A tensor with the elements of a file, in memory of its own; a shared one is not implemented."""
    if shared:
        raise NotImplementedError("torch.from_file: memory that is shared with a file is not implemented")
    dtype = dtype or flambeau.get_default_dtype()
    with open(filename, "rb") as file:
        data = bytearray(file.read(size * dtype.itemsize))
    return flambeau.frombuffer(data, dtype=dtype, count=size)


def _in_place(name: str) -> Function:
    """A function that calls the method of the same name of its first argument."""
    method = getattr(Tensor, name)

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return method(input, *args, **kwargs)

    call.__name__, call.__doc__ = name, method.__doc__
    return call


class FatalError(Exception):
    """An error after which a process of PyTorch's cannot go on; none is raised here."""


class AcceleratorError(RuntimeError):
    """An error of a device; none is raised here."""


class JITException(Exception):
    """An error in a scripted function; none is raised here, since functions run as they are."""


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Lets backward passes look for NaN and say where a gradient was computed, or ends that."""
    flambeau.autograd.set_detect_anomaly(enabled, check_nan)


def is_vulkan_available() -> bool:
    """False: there are no devices of this kind."""
    return False


def init_num_threads() -> None:
    """Changes nothing: the number of threads is known from the start."""


def cudnn_is_acceptable(tensor: Tensor) -> bool:
    """False: there is no cuDNN."""
    return False


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError where a number is out of range."""
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


sym_constrain_range_for_size = sym_constrain_range


def wait(fut: Any) -> Any:
    """The result of a future."""
    return fut.wait()


def fork(func: Any, *args: Any, **kwargs: Any) -> Any:
    """A future with the result of a call, which is made at once."""
    from flambeau.futures import Future

    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def _rarely(name: str) -> Any:
    """What few programs use; None where there is no such name."""
    from flambeau.torch.shims import jit_types

    if name == "Future":
        from flambeau.futures import Future

        return Future
    if name in ("DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKeySet"):
        from flambeau.torch.shims import _C

        return getattr(_C, name)
    if name == "ExcludeDispatchKeyGuard":
        from flambeau.torch.shims._C import _ExcludeDispatchKeyGuard

        return _ExcludeDispatchKeyGuard
    if name == "TypedStorage":
        from flambeau.torch.shims.storage import TypedStorage

        return TypedStorage
    if name == "FileCheck":
        from flambeau.torch.shims.testing import FileCheck

        return FileCheck
    if name in ("ScriptModule", "ScriptFunction"):
        from flambeau.torch.shims import jit

        return getattr(jit, name)
    if name in ("is_anomaly_enabled", "is_anomaly_check_nan_enabled"):
        return getattr(flambeau.autograd.anomaly_mode, name)
    if name in ("PyTorchFileReader", "PyTorchFileWriter"):
        from flambeau.torch.shims import files

        return getattr(files, name)
    return jit_types.of(name)


def __getattr__(name: str) -> Any:
    """Classes of tensors and storages of a type, functions on lists of tensors, and functions that are methods here."""
    if name in ("autocast", "GradScaler") or name in AUTOCAST:
        return getattr(flambeau.amp if hasattr(flambeau.amp, name) else flambeau.amp.autocast_mode, name)
    if name in legacy.TENSORS:
        return legacy.typed(name)
    if name in legacy.STORAGES:
        return legacy.storage(name)
    if name.startswith("_foreach_"):
        return foreach.function(name)
    if (found := _rarely(name)) is not None:
        return found
    from flambeau.torch import names

    if names.kind_of("torch", name) == "function" and hasattr(Tensor, name) and name in vars(Tensor):
        return _in_place(name)
    if names.kind_of("torch", name) == "value":
        from flambeau.torch.shims import dtypes

        if name in dtypes.SIZES:
            return dtypes.of(name)
        if name == "jagged":
            return dtypes.NoLayout(name)
    raise AttributeError(f"module 'torch' has no attribute '{name}'")
