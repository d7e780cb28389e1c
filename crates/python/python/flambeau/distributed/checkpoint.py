"""Checkpoints that all ranks write together, and that any number of ranks reads.

A checkpoint is a folder with one file of tensors for each rank and an index, which is replaced at once when all files are on the disk. So a
process that ends at any moment leaves the checkpoint before. Nothing in it is executed when it is read: tensors are safetensors files, and
other values are those of JSON.
"""

from __future__ import annotations

import functools
import json
import os
from typing import NamedTuple

import flambeau
from flambeau import _flambeau
from flambeau.distributed.groups import ProcessGroup, group_of, is_initialized
from flambeau.futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor

    Path = str | os.PathLike[str]

__all__ = ["FileSystemReader", "FileSystemWriter", "Shard", "async_save", "load", "load_all", "save"]


class Shard(NamedTuple):
    """What a rank has of a tensor: elements, the shape of the whole, and the index of the first element in the flattened whole."""

    tensor: Tensor
    shape: tuple[int, ...]
    start: int


class FileSystemWriter:
    """Names the folder that a checkpoint is written to."""

    def __init__(self, path: Path, *options: Any, **more: Any) -> None:
        self.path = path


class FileSystemReader(FileSystemWriter):
    """Names the folder that a checkpoint is read from."""


def _leaves(state: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], str, Any]]:
    """The values of nested dictionaries: their names, the dictionaries that they are in, their keys there, and themselves."""
    for key, value in state.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, state, key, value


def _parts(state: dict[str, Any]) -> list[tuple[str, Tensor, list[int], int]]:
    parts = []
    for name, _, _, value in _leaves(state):
        if isinstance(value, flambeau.Tensor):
            value = Shard(value, tuple(value.shape), 0)
        if isinstance(value, Shard):
            parts.append((name, value.tensor.detach(), list(value.shape), value.start))
    return parts


def _notes(state: dict[str, Any]) -> dict[str, str]:
    notes = {}
    for name, _, _, value in _leaves(state):
        if not isinstance(value, (flambeau.Tensor, Shard)):
            try:
                notes[name] = json.dumps(value)
            except TypeError:
                raise TypeError(f"checkpoint: expected tensors and values of JSON but got {type(value).__name__} for {name!r}") from None
    return notes


def _folder(checkpoint_id: Path | None, storage: Any) -> str:
    path = checkpoint_id if checkpoint_id is not None else getattr(storage, "path", None)
    if path is None:
        raise ValueError("checkpoint: expected a checkpoint_id, the path of a folder")
    return os.fspath(path)


@functools.cache
def _alone() -> ProcessGroup:
    """The group of a process that is not one of a job."""
    return ProcessGroup(_flambeau._ProcessGroup.single(), "tcp")


def _group(process_group: ProcessGroup | None) -> ProcessGroup:
    return group_of(process_group) if process_group is not None or is_initialized() else _alone()


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Path | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Writes a checkpoint to a folder that all ranks see. All ranks call it, each with its tensors, or parts of them as `Shard`. What several
    ranks have is written by one of them; values that are not tensors are those of rank 0."""
    group = _alone() if no_dist else _group(process_group)
    _flambeau._save_checkpoint(group._group, _folder(checkpoint_id, storage_writer), _parts(state_dict), _notes(state_dict), False)


class _Saving(Future):
    """A checkpoint that is being written."""

    def __init__(self, work: _flambeau.Work) -> None:
        super().__init__()
        self._work = work

    def done(self) -> bool:
        return self._work.is_completed()

    def result(self, timeout: float | None = None) -> None:
        """Waits until it is written."""
        self._work.wait(timeout)

    def wait(self) -> Any:
        self._work.wait()

    def value(self) -> Any:
        self._work.wait()


class _Writer:
    """A group that only writes checkpoints, since those of the program may be in use meanwhile, and the save that is running."""

    running: _flambeau.Work | None

    def __init__(self, group: _flambeau._ProcessGroup) -> None:
        own = group.new_group(list(range(group.size())))
        assert own is not None
        self.group, self.running = own, None


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Path | None = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: ProcessGroup | None = None,
) -> Future:
    """The same in the background: tensors are copied before it returns, so that training goes on. It waits for the save before."""
    folder, parts, notes = _folder(checkpoint_id, storage_writer), _parts(state_dict), _notes(state_dict)
    owner = _group(process_group)
    if owner._writer is None:
        owner._writer = _Writer(owner._group)
    writer: _Writer = owner._writer
    if writer.running is not None:
        running, writer.running = writer.running, None
        running.wait()
    writer.running = _flambeau._save_checkpoint(writer.group, folder, parts, notes, True)
    assert writer.running is not None
    return _Saving(writer.running)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Path | None = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Fills the tensors of a state, or the parts that `Shard` names, with those of a checkpoint, and replaces its other values. The number of
    ranks may be another than that of the job that saved it."""
    notes = _flambeau._load_checkpoint(_folder(checkpoint_id, storage_reader), _parts(state_dict))
    for name, owner, key, value in list(_leaves(state_dict)):
        if not isinstance(value, (flambeau.Tensor, Shard)):
            if name not in notes:
                raise RuntimeError(f"checkpoint: expected a value {name!r} but there is none")
            owner[key] = json.loads(notes[name])


def load_all(checkpoint_id: Path) -> dict[str, Any]:
    """All that a checkpoint has, by the names of its values: tensors as wholes."""
    tensors, notes = _flambeau._load_whole_checkpoint(os.fspath(checkpoint_id))
    return {**dict(tensors), **{name: json.loads(text) for name, text in notes.items()}}
