"""PyTorch's archives: what `torch.save` writes, a zip file with a pickle and the bytes of each storage.

Reading them executes nothing by default: classes and functions that the pickle names are looked up in a list of known ones.
"""

from __future__ import annotations

import io
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict, defaultdict, deque

import flambeau
from flambeau import Size, Tensor, _sparse
from flambeau._methods import TYPE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

STORAGES = {name: kind.replace("Tensor", "Storage") for kind, name in TYPE_NAMES.items()}
DTYPES = {kind: name for name, kind in STORAGES.items()}
# Types of elements without a class of storages: tensors of them are views of bytes.
UNTYPED = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex32")
BYTES = "UntypedStorage"


class _Global:
    """A class or function that the pickle names by PyTorch's path."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        raise TypeError("a name in an archive cannot be called")


class _Storage:
    """A storage as the pickle refers to it: one for each type of elements that tensors see in it."""

    def __init__(self, key: str, kind: str, count: int) -> None:
        self.key, self.kind, self.count = key, kind, count


def _short(dtype: Any) -> str:
    return str(dtype).split(".")[-1]


# The one in Python, whose steps can be replaced.
_PurePickler: Any = vars(pickle)["_Pickler"]


class _Pickler(_PurePickler):  # type: ignore[misc]
    """Writes tensors as PyTorch does, and the names of its classes."""

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, Tensor]] = {}
        # Pickling identifies objects by their addresses, so that those made here must live until the end.
        self._made: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, _Storage):
            module = "torch.storage" if obj.kind == BYTES else "torch"
            return ("storage", _Global(module, obj.kind), obj.key, "cpu", obj.count)
        return None

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        """Writes an object, or what stands for it."""
        if isinstance(obj, _Global):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return None
        if isinstance(obj, flambeau.dtype):
            return self.save(_Global("torch", _short(obj)))
        if isinstance(obj, _Layout):
            return self.save_reduce(_Global("torch.serialization", "_get_layout"), (obj.name,))
        if type(obj) is flambeau.device or type(obj) is Size or isinstance(obj, Tensor):
            memo = self.memo.get(id(obj))
            if memo is not None:
                self.write(self.get(memo[0]))
                return None
            self._made.append(obj)
            function, arguments = self._recipe(obj)
            return self.save_reduce(function, arguments, obj=obj)
        return super().save(obj, save_persistent_id)

    def _recipe(self, obj: Any) -> tuple[Any, Any]:
        if isinstance(obj, flambeau.device):
            return _Global("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, Size):
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, flambeau.nn.Parameter):
            return _Global("torch._utils", "_rebuild_parameter"), (self._kept(obj.detach()), obj.requires_grad, OrderedDict())
        if type(obj) is not Tensor:
            plain = self._kept(obj.detach().as_subclass(Tensor))
            return _Global("torch._tensor", "_rebuild_from_type_v2"), (_rebuilt, type(obj), (plain,), dict(obj.__dict__))
        if _sparse.is_layout(obj):
            return self._sparse_recipe(obj)
        storage = self._storage(obj)
        geometry = obj.storage_offset(), tuple(obj.shape), obj.stride()
        arguments: tuple[Any, ...] = (storage, *geometry, obj.requires_grad, OrderedDict())
        if storage.kind == BYTES:
            return _Global("torch._utils", "_rebuild_tensor_v3"), (*arguments, obj.dtype)
        return _Global("torch._utils", "_rebuild_tensor_v2"), arguments

    def _sparse_recipe(self, obj: Any) -> tuple[Any, Any]:
        """As PyTorch writes it: layout and parts. `requires_grad` is not kept, as there."""
        layout, parts = _sparse.recipe(obj)[1][:2]
        name = self._kept(_Layout(f"torch.{layout}"))
        return _Global("torch._utils", "_rebuild_sparse_tensor"), (name, self._kept(tuple(map(self._kept, parts))))

    def _kept(self, obj: Any) -> Any:
        self._made.append(obj)
        return obj

    def _storage(self, tensor: Tensor) -> _Storage:
        identity = tensor._storage_identity()
        if identity not in self.storages:
            self.storages[identity] = str(len(self.storages)), tensor
        kind, nbytes = STORAGES.get(_short(tensor.dtype), BYTES), tensor.untyped_storage().nbytes()
        count = nbytes if kind == BYTES else nbytes // tensor.element_size()
        return self._kept(_Storage(self.storages[identity][0], kind, count))

    def save_reduce(self, func: Any, args: Any, *more: Any, **named: Any) -> Any:
        """A function that is only named is written as it is."""
        if not isinstance(func, _Global):
            return super().save_reduce(func, args, *more, **named)
        self.save(func)
        self.save(args)
        self.write(pickle.REDUCE)
        if named.get("obj") is not None:
            self.memoize(named["obj"])


class _Layout:
    """A layout, which an archive has by PyTorch's name."""

    def __init__(self, name: str) -> None:
        self.name = name


def _get_layout(name: str) -> Any:
    """The layout of a name; others are refused, since the name comes from a file."""
    known = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
    short = str(name).removeprefix("torch.")
    if short not in known:
        raise pickle.UnpicklingError(f"expected the name of a layout but got {name!r}")
    return getattr(flambeau, short)


def _rebuilt(tensor: Tensor) -> Tensor:
    return tensor


def write(value: Any, file: IO[bytes], protocol: int = 2) -> None:
    """Writes a value, with everything that Python can pickle, as an archive."""
    data = io.BytesIO()
    pickler = _Pickler(data, protocol)
    pickler.dump(value)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", data.getvalue())
        archive.writestr("archive/byteorder", sys.byteorder)
        for key, tensor in pickler.storages.values():
            archive.writestr(f"archive/data/{key}", tensor.untyped_storage().tobytes())
        archive.writestr("archive/version", "3\n")


def _rebuild_tensor(
    storage: Any, offset: int, sizes: Any, strides: Any, requires_grad: bool = False, hooks: Any = None, metadata: Any = None
) -> Tensor:
    bytes_, dtype = storage
    made: Tensor = bytes_._tensor(dtype, tuple(sizes), tuple(strides), offset)
    return made.requires_grad_() if requires_grad else made


def _rebuild_typed_tensor(
    storage: Any, offset: int, sizes: Any, strides: Any, requires_grad: bool, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    return _rebuild_tensor((storage[0], dtype), offset, sizes, strides, requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any = None) -> Any:
    return flambeau.nn.Parameter(data, requires_grad)


def _rebuild_from_type(function: Any, cls: Any, arguments: Any, state: Any) -> Any:
    made = function(*arguments)
    if type(made) is not cls:
        made = Tensor._make_subclass(cls, made, made.requires_grad)
    if isinstance(state, dict):
        made.__dict__.update(state)
    return made


def _bytes(text: str, encoding: str) -> bytes:
    """The bytes that a pickle of protocol 2 has as a text."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"expected bytes as a text in latin1 but got {encoding}")
    return text.encode("latin1")


# What an archive may name, by PyTorch's paths.
KNOWN: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_typed_tensor,
    ("torch.storage", BYTES): BYTES,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    ("torch._utils", "_rebuild_sparse_tensor"): _sparse.rebuilt,
    ("torch.serialization", "_get_layout"): _get_layout,
    ("flambeau._archive", "_rebuilt"): _rebuilt,
    ("torch", "Size"): Size,
    ("torch", "device"): flambeau.device,
    ("torch", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): None,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("collections", "Counter"): Counter,
    ("collections", "deque"): deque,
    ("_codecs", "encode"): _bytes,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    **{("torch", name): getattr(flambeau, name) for name in (*STORAGES, *UNTYPED)},
}


class _Unpickler(pickle.Unpickler):
    """Reads what an archive names: of everything that can be imported, or of known names and `allowed` ones only."""

    def __init__(self, file: Any, storage: Callable[[str], Any], allowed: dict[str, Any] | None) -> None:
        super().__init__(file, encoding="utf-8")
        self.storage, self.allowed = storage, allowed

    def find_class(self, module: str, name: str) -> Any:
        found = KNOWN.get((module, name))
        if found is not None:
            return found
        if module == "torch" and name in DTYPES:
            return name
        if (module, name) == ("torch.nn.parameter", "Parameter"):
            return flambeau.nn.Parameter
        if self.allowed is None:
            return super().find_class(module, name)
        if f"{module}.{name}" in self.allowed:
            return self.allowed[f"{module}.{name}"]
        raise pickle.UnpicklingError(
            f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{name}])` to allowlist this global if you trust this class/function."
        )

    def persistent_load(self, pid: Any) -> Any:
        kind, storage_kind, key, *_ = pid
        dtype = "uint8" if storage_kind == BYTES else DTYPES.get(storage_kind)
        if kind != "storage" or dtype is None:
            raise pickle.UnpicklingError(f"expected a storage but got {kind} of {storage_kind}")
        return self.storage(key), getattr(flambeau, dtype)


def read(file: IO[bytes], allowed: dict[str, Any] | None) -> Any:
    """The value in an archive. With `allowed` only known names and these; with None whatever the pickle names is executed."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        pickled = next((name for name in names if name.endswith("/data.pkl")), None)
        if pickled is None:
            raise ValueError("expected an archive with a file data.pkl")
        prefix = pickled.removesuffix("data.pkl")
        storages: dict[str, Any] = {}

        def storage(key: str) -> Any:
            if key not in storages:
                storages[key] = flambeau.UntypedStorage.frombytes(archive.read(f"{prefix}data/{key}"))
            return storages[key]

        return _Unpickler(io.BytesIO(archive.read(pickled)), storage, allowed).load()
