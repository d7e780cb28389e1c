"""Collectives of Python objects, which are pickled. Unpickling runs code: only for processes that trust each other."""

from __future__ import annotations

import pickle

import flambeau
from flambeau.distributed.collectives import _root, all_gather, bytes_tensor, irecv, send
from flambeau.distributed.groups import ProcessGroup, group_of, is_member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _object_of(data: Tensor) -> Any:
    return pickle.loads(bytes(data.tolist()))


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Writes the object of rank `i` to `object_list[i]`, on every rank."""
    if not is_member(group):
        return
    group = group_of(group)
    data = bytes_tensor(pickle.dumps(obj))
    sizes = [flambeau.zeros(1, dtype=flambeau.int64) for _ in range(group.size())]
    all_gather(sizes, flambeau.tensor([data.numel()]), group)
    # All send as many bytes as the longest object has.
    counts = [int(size.item()) for size in sizes]
    padded = flambeau.zeros(max(counts), dtype=flambeau.uint8)
    padded[: data.numel()] = data
    parts = [flambeau.empty_like(padded) for _ in counts]
    all_gather(parts, padded, group)
    object_list[:] = [_object_of(part[:count]) for part, count in zip(parts, counts, strict=True)]


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Writes the object of rank `i` to `object_gather_list[i]` of rank `dst`."""
    if not is_member(group):
        return
    group = group_of(group)
    found: list[Any] = []
    all_gather_object(found, obj, group)
    if group.rank() == _root(group, dst, group_dst):
        if object_gather_list is None:
            raise ValueError("gather_object: expected a list on the rank that receives")
        object_gather_list[:] = found


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replaces the objects of every rank by those of rank `src`."""
    if not is_member(group):
        return
    group = group_of(group)
    root = _root(group, src, group_src)
    data = bytes_tensor(pickle.dumps(list(object_list)) if group.rank() == root else b"")
    size = flambeau.tensor([data.numel()])
    group._group.broadcast(size, root).wait()
    if group.rank() != root:
        data = flambeau.empty(int(size.item()), dtype=flambeau.uint8)
    group._group.broadcast(data, root).wait()
    if group.rank() != root:
        object_list[:] = _object_of(data)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Writes object `i` of rank `src` to the list of rank `i`."""
    if not is_member(group):
        return
    group = group_of(group)
    objects = [scatter_object_input_list]
    broadcast_object_list(objects, src, group, group_src=group_src)
    found = objects[0]
    if found is None or len(found) != group.size():
        raise ValueError(f"scatter_object_list: expected {group.size()} objects on the rank that sends")
    scatter_object_output_list[:] = [found[group.rank()]]


def send_object_list(object_list: list[Any], dst: int | None = None, group: ProcessGroup | None = None, device: Any = None) -> None:
    """Sends objects to rank `dst`."""
    data = bytes_tensor(pickle.dumps(list(object_list)))
    send(flambeau.tensor([data.numel()]), dst, group)
    send(data, dst, group)


def recv_object_list(object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None) -> int:
    """Receives objects from rank `src`, or from any; returns the rank that sent them."""
    size = flambeau.zeros(1, dtype=flambeau.int64)
    first = irecv(size, src, group)
    if first is None:
        return -1
    first.wait()
    source = first.source_rank()
    ranks = group_of(group)._group.ranks()
    sender = src if source is None else ranks[source]
    data = flambeau.empty(int(size.item()), dtype=flambeau.uint8)
    second = irecv(data, sender, group)
    if second is not None:
        second.wait()
    object_list[:] = _object_of(data)
    return -1 if sender is None else sender
