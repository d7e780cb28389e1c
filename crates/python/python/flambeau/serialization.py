"""Tensors by name in safetensors files (https://huggingface.co/docs/safetensors), which PyTorch's package reads too; and files
that PyTorch wrote, which are read only.

A file holds tensors and texts, no programs: reading one runs nothing. Nested values, such as a checkpoint of a model's state,
an optimiser's and a number, are tensors named by their paths, and one text that describes the structure.
"""

from __future__ import annotations

import os
import threading

import flambeau
from flambeau import _flambeau
from flambeau._structure import Flattened, is_flat, restored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO, Any

    from flambeau import Tensor

    Path = str | os.PathLike[str]

# Types of elements by the codes that files have for them.
CODES = {
    "F64": flambeau.float64,
    "F32": flambeau.float32,
    "F16": flambeau.float16,
    "BF16": flambeau.bfloat16,
    "I64": flambeau.int64,
    "I32": flambeau.int32,
    "I16": flambeau.int16,
    "I8": flambeau.int8,
    "U8": flambeau.uint8,
    "U16": flambeau.uint16,
    "U32": flambeau.uint32,
    "U64": flambeau.uint64,
    "F8_E4M3": flambeau.float8_e4m3fn,
    "F8_E5M2": flambeau.float8_e5m2,
    "F8_E8M0": flambeau.float8_e8m0fnu,
    "BOOL": flambeau.bool,
}
METADATA = "__metadata__"
# How the archives begin that `torch.save` makes since PyTorch 1.6.
ARCHIVE = b"PK\x03\x04"
# The note that says how nested values are put together.
STRUCTURE = "flambeau.structure"


def save(value: Any, path: Path | IO[bytes], notes: Mapping[str, str] | None = None) -> None:
    """Writes tensors by name, or tensors, numbers and texts in nested dicts, lists and tuples, to `path`, and notes beside them.

    A file object is written to at its position. The file of a path is written completely before it replaces the previous one, whose permissions it gets, and which stays as it was if
    this fails. Nobody can write to the tensors meanwhile.
    """
    file: Any = path
    if hasattr(file, "write"):
        return _save_to_object(value, file, notes)
    if is_flat(value):
        return _save(value, file, notes)
    flattened = Flattened(value)
    return _save(flattened.tensors, file, {**(notes or {}), STRUCTURE: flattened.text})


def _save_to_object(value: Any, file: IO[bytes], notes: Mapping[str, str] | None) -> None:
    """Writes to a file object by a file of its own, which is whole before the first byte is written."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        save(value, path, notes)
        with open(path, "rb") as made:
            shutil.copyfileobj(made, file)


def _load_from_object(file: IO[bytes]) -> Any:
    """Reads the rest of a file object by a file of its own."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "wb") as made:
            shutil.copyfileobj(file, made)
        return load(path)


def _save(tensors: Mapping[str, Tensor], path: Path, notes: Mapping[str, str] | None) -> None:
    _check(tensors, notes)
    gets_signals = threading.current_thread() is threading.main_thread()
    _flambeau._save_safetensors(os.fsdecode(path), dict(tensors), dict(notes or {}), gets_signals)


def _check(tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None) -> None:
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, flambeau.Tensor):
            raise TypeError(f"expected tensors by name but got {type(tensor).__name__} under {name!r}")
        if name == METADATA:
            raise ValueError(f"expected another name than {METADATA}, which the format has for notes")
    for key, value in (notes or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"expected notes to be texts but got {type(value).__name__} under {key!r}")


def load(path: Path | IO[bytes], map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None) -> Any:
    """What was saved, in memory of its own; the tensors by name of a file that another program wrote.

    Files of `torch.save` are known by their first bytes. They may hold tensors, numbers, texts, lists, tuples and dicts;
    anything else that one names is a ValueError with that name. Tensors of every device come to the host. What is read takes memory in
    proportion to the file.
    """
    if not weights_only:
        raise ValueError("load: only tensors and plain values are read, never programs; weights_only=False has no meaning here")
    if mmap or (map_location is not None and flambeau.device(map_location).type != "cpu"):
        raise NotImplementedError("load: tensors are read into memory of their own on the host")
    file: Any = path
    if hasattr(file, "read"):
        return _load_from_object(file)
    if _is_archive(file):
        return _flambeau._load_pytorch(os.fsdecode(file))
    return load_with_notes(file)[0]


def _is_archive(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == ARCHIVE


def load_with_notes(path: Path) -> tuple[Any, dict[str, str]]:
    """What was saved, and the notes beside it."""
    name = os.fsdecode(path)
    tensors, notes = _flambeau._load_safetensors(name)
    structure = notes.pop(STRUCTURE, None)
    if structure is None:
        return tensors, notes
    try:
        return restored(structure, tensors), notes
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not a whole safetensors file: {STRUCTURE}: {error}") from error
