"""torch itself: what PyTorch has at the top beside the names that Flambeau has there too."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau._methods import TYPE_NAMES
from flambeau.torch.shims import foreach, legacy
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
has_mkl = has_lapack = has_openmp = has_spectral = False
has_mps = has_cuda = has_cudnn = False


def compile(model: Any = None, **options: Any) -> Any:
    """The model or function itself, which runs as it is; a decorator where none is given."""
    return model if model is not None else (lambda function: function)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False: operands are not converted."""
    return False


is_autocast_cpu_enabled = is_autocast_cache_enabled = is_autocast_xla_enabled = is_autocast_ipu_enabled = is_autocast_enabled


def get_autocast_dtype(device_type: str = "cpu") -> flambeau.dtype:
    """The dtype that PyTorch converts operands to."""
    return flambeau.amp.get_autocast_dtype(device_type)


def get_autocast_cpu_dtype() -> flambeau.dtype:
    """bfloat16."""
    return flambeau.bfloat16


def get_autocast_gpu_dtype() -> flambeau.dtype:
    """float16."""
    return flambeau.float16


def set_autocast_enabled(*args: Any) -> None:
    """Changes nothing: operands are not converted."""


set_autocast_dtype = set_autocast_cache_enabled = set_autocast_cpu_enabled = set_autocast_enabled
set_autocast_gpu_dtype = set_autocast_cpu_dtype = set_autocast_enabled


def clear_autocast_cache() -> None:
    """Forgets nothing."""


def autocast_increment_nesting() -> int:
    """0: contexts are not counted."""
    return 0


def autocast_decrement_nesting() -> int:
    """0: contexts are not counted."""
    return 0


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


def __getattr__(name: str) -> Any:
    """Classes of tensors and storages of a type, functions on lists of tensors, and functions that are methods here."""
    if name in ("autocast", "GradScaler"):
        return getattr(flambeau.amp, name)
    if name in legacy.TENSORS:
        return legacy.typed(name)
    if name in legacy.STORAGES:
        return legacy.storage(name)
    if name.startswith("_foreach_"):
        return foreach.function(name)
    from flambeau.torch import names

    if names.kind_of("torch", name) == "function" and hasattr(Tensor, name) and name in vars(Tensor):
        return _in_place(name)
    if names.kind_of("torch", name) == "value":
        from flambeau.torch.shims import dtypes

        if name in dtypes.SIZES:
            return dtypes.of(name)
        if name in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"):
            return dtypes.NoLayout(name)
    raise AttributeError(f"module 'torch' has no attribute '{name}'")
