"""torch.serialization: `save` and `load` by PyTorch's archives, which hold whatever Python can pickle."""

from __future__ import annotations

import os
from contextlib import contextmanager

import flambeau
from flambeau import _archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

from enum import Enum as _Enum  # noqa: E402
from typing import IO as _IO, Any as _Any, Callable as _Callable, Union as _Union  # noqa: E402

OVERRIDES = ("load", "save")
DEFAULT_PROTOCOL = 2
MAP_LOCATION = _Union[_Callable[[_Any, str], _Any], flambeau.device, str, dict[str, str], None]
FILE_LIKE = _Union[str, os.PathLike[str], _IO[bytes]]
_safe: dict[str, _Any] = {}


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Classes and functions that files may name; a pair has the name as well."""
    for item in safe_globals:
        value, name = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        _safe[name] = value


def clear_safe_globals() -> None:
    """Forgets them."""
    _safe.clear()


def get_safe_globals() -> list[Any]:
    """Those that were added."""
    return list(_safe.values())


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a file's pickle that are not known."""
    import pickletools
    import zipfile

    with zipfile.ZipFile(f) as archive:
        data = archive.read(next(name for name in archive.namelist() if name.endswith("/data.pkl")))
    found = [str(argument).replace(" ", ".") for opcode, argument, _ in pickletools.genops(data) if opcode.name == "GLOBAL"]
    known = {f"{module}.{name}" for module, name in _archive.KNOWN} | {f"torch.{kind}" for kind in _archive.DTYPES}
    return sorted({name for name in found if name not in known and name not in _safe})


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Inside it, files may name these."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


@contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """A context that does nothing."""
    yield


def register_package(priority: int, tagger: Any, deserializer: Any) -> None:
    """Registers nothing: all tensors come to the host."""


def check_module_version_greater_or_equal(module: Any, req_version_tuple: Any, error_if_malformed: bool = True) -> bool:
    """Whether a module has at least this version."""
    return tuple(int(part) for part in module.__version__.split(".")[:3] if part.isdigit()) >= tuple(req_version_tuple)


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage itself."""
    return storage


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes a value to a file or a file object, in PyTorch's format."""
    if hasattr(f, "write"):
        _archive.write(obj, f, pickle_protocol)
        return
    path = os.fspath(f)
    # The file is whole before it replaces one that is there.
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            _archive.write(obj, file, pickle_protocol)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads a value that was saved in PyTorch's format or as a safetensors file; tensors of every device come to the host.

    Unless `weights_only` is False, the file may name tensors, plain values and what `add_safe_globals` allows, and nothing is executed.
    """
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, map_location, weights_only=weights_only)
    start = f.tell()
    magic = f.read(4)
    f.seek(start)
    if magic != b"PK\x03\x04":
        return flambeau.load(f)
    _check(map_location)
    value = _archive.read(_whole(f, start), None if weights_only is False else dict(_safe))
    return _moved(value) if _is_meta(map_location) else value


def _whole(file: IO[bytes], start: int) -> IO[bytes]:
    """A file that begins where the archive does."""
    if start == 0:
        return file
    import io

    return io.BytesIO(file.read())


def _is_meta(map_location: Any) -> bool:
    return isinstance(map_location, (str, flambeau.device)) and flambeau.device(map_location).type == "meta"


def _check(map_location: Any) -> None:
    if isinstance(map_location, (str, flambeau.device)) and flambeau.device(map_location).type not in ("cpu", "meta"):
        raise RuntimeError(
            f"Attempting to deserialize object on a {map_location} device but torch.cuda.is_available() is False. Please use "
            "torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        )


def _moved(value: Any) -> Any:
    from flambeau.utils._pytree import tree_map_only

    return tree_map_only(flambeau.Tensor, lambda x: x.to("meta"), value)


class LoadEndianness(_Enum):
    """The order of the bytes of numbers in a file."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """A class has another source than when it was stored; files here hold no source."""


_crc32: list[bool] = [True]
_mmap: list[int | None] = [2]
_endianness: list[Any] = [None]


def get_crc32_options() -> bool:
    """Whether checksums are computed: they always are."""
    return _crc32[0]


def set_crc32_options(compute_crc32: bool) -> None:
    """Sets what `get_crc32_options` says; checksums are computed all the same."""
    _crc32[0] = compute_crc32


def get_default_mmap_options() -> int | None:
    """The flags of memory maps that were set; files are read."""
    return _mmap[0]


class set_default_mmap_options:
    """Sets what `get_default_mmap_options` says, from the call on, or inside a context."""

    def __init__(self, flags: int) -> None:
        import mmap

        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError("Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED")
        self.prev, _mmap[0] = _mmap[0], flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        _mmap[0] = self.prev


def get_default_load_endianness() -> Any:
    """The order that was set for files that do not say."""
    return _endianness[0]


def set_default_load_endianness(endianness: Any) -> None:
    """Sets the order for files that do not say; those of `torch.save` say it."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness[0] = endianness


def location_tag(storage: Any) -> str:
    """The device of a storage, as files name it."""
    return str(storage.device)


def validate_cuda_device(location: str) -> int:
    """RuntimeError, as in PyTorch where there is no CUDA device."""
    raise RuntimeError(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only machine, "
        "please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    )


def validate_hpu_device(location: str) -> int:
    """RuntimeError, as in PyTorch where there is no such device."""
    raise RuntimeError(
        "Attempting to deserialize object on a HPU device but torch.hpu.is_available() is False. If you are running on a CPU-only machine, "
        "please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    )


def mkdtemp() -> Any:
    """A context with a temporary folder."""
    import tempfile

    return tempfile.TemporaryDirectory()
