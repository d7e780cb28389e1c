"""Tensors by name in safetensors files (https://huggingface.co/docs/safetensors), which PyTorch's package reads too; and files
that PyTorch wrote, which are read only.

A file holds tensors and texts, no programs: reading one runs nothing. Nested values, such as a checkpoint of a model's state,
an optimiser's and a number, are tensors by the names of their places, and one text that says how they are put together.
"""

from __future__ import annotations

import json
import os
import sys

import flambeau
from flambeau._structure import Flattened, is_flat, restored
from flambeau.utils.tensor_bytes import from_bytes, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from flambeau import Tensor

    Path = str | os.PathLike[str]

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
    "BOOL": flambeau.bool,
}
NAMES = {dtype: code for code, dtype in CODES.items()}
# The format's own bound on the table of contents.
LONGEST_HEADER = 100_000_000
METADATA = "__metadata__"
# How the archives begin that `torch.save` makes since PyTorch 1.6.
ARCHIVE = b"PK\x03\x04"
# The note that says how nested values are put together.
STRUCTURE = "flambeau.structure"


def save(value: Any, path: Path, notes: Mapping[str, str] | None = None) -> None:
    """Writes tensors by name, or tensors, numbers and texts in nested dicts, lists and tuples, to `path`, and notes beside them.

    The file is whole on the disk before it takes the place of the one of before, which a failure leaves as it was.
    """
    if is_flat(value):
        return _save(value, path, notes)
    flattened = Flattened(value)
    return _save(flattened.tensors, path, {**(notes or {}), STRUCTURE: flattened.text})


def _save(tensors: Mapping[str, Tensor], path: Path, notes: Mapping[str, str] | None) -> None:
    _check(tensors, notes)
    header: dict[str, Any] = {METADATA: dict(notes)} if notes else {}
    end, parts = 0, []
    # Large elements first, so that all lie at multiples of their size.
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        data = to_bytes(tensors[name])
        begin, end = end, end + len(data)
        shape = list(tensors[name].shape)
        header[name] = {"dtype": NAMES[tensors[name].dtype], "shape": shape, "data_offsets": [begin, end]}
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    _replace(os.fspath(path), [len(text).to_bytes(8, "little"), text, *parts])


def _check(tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None) -> None:
    if sys.byteorder != "little":
        raise NotImplementedError("safetensors files are little-endian, and this machine is not")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, flambeau.Tensor):
            raise TypeError(f"expected tensors by name but got {type(tensor).__name__} under {name!r}")
        if name == METADATA:
            raise ValueError(f"expected another name than {METADATA}, which the format has for notes")
    for key, value in (notes or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"expected notes to be texts but got {type(value).__name__} under {key!r}")


def _replace(path: str, parts: list[bytes]) -> None:
    """Writes beside the file and then puts the new one in its place."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def load(path: Path, map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None) -> Any:
    """What was saved, in memory of its own; the tensors by name of a file that another program wrote.

    Files of `torch.save` are known by their first bytes. They may hold tensors, numbers, texts, lists, tuples and dicts; what
    else one asks for is a ValueError that names it. Tensors of every device come to the host.
    """
    if not weights_only:
        raise ValueError("load: only tensors and plain values are read, never programs; weights_only=False has no meaning here")
    if mmap or (map_location is not None and flambeau.device(map_location).type != "cpu"):
        raise NotImplementedError("load: tensors are read into memory of their own on the host")
    if _is_archive(path):
        return _load_archive(path)
    return load_with_notes(path)[0]


def _is_archive(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == ARCHIVE


def _load_archive(path: Path) -> Any:
    try:
        return flambeau._flambeau._load_pytorch(path)
    except MemoryError:
        raise  # Which says nothing about the file.
    except (OSError, RuntimeError) as error:
        raise ValueError(str(error)) from error


def load_with_notes(path: Path) -> tuple[Any, dict[str, str]]:
    """What was saved, and the notes beside it."""
    with open(path, "rb") as file:
        data = memoryview(file.read())
    try:
        tensors, notes = _read(data)
        structure = notes.pop(STRUCTURE, None)
        return (tensors if structure is None else restored(structure, tensors)), notes
    except MemoryError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{os.fspath(path)}: not a whole safetensors file: {error}") from error


def _read(data: memoryview) -> tuple[dict[str, Tensor], dict[str, str]]:
    if len(data) < 8:
        raise ValueError(f"expected at least 8 bytes but got {len(data)}")
    length = int.from_bytes(data[:8], "little")
    if length > min(LONGEST_HEADER, len(data) - 8):
        raise ValueError(f"expected {length} bytes of contents but got {len(data) - 8}")
    header = json.loads(bytes(data[8 : 8 + length]))
    notes = header.pop(METADATA, {})
    body, end = data[8 + length :], 0
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, last = end, entry["data_offsets"][1]
        if entry["data_offsets"][0] != begin or not begin <= last <= len(body):
            raise ValueError(f"`{name}` lies at {entry['data_offsets']}, where {begin} to {len(body)} is left")
        if entry["dtype"] not in CODES:
            raise ValueError(f"`{name}` has elements of type {entry['dtype']}, of which there are no tensors")
        tensors[name] = from_bytes(body[begin:last], entry["shape"], CODES[entry["dtype"]])
        end = last
    if end != len(body):
        raise ValueError(f"{len(body) - end} bytes belong to no tensor")
    return {name: tensors[name] for name in header}, notes
