"""Process groups: how they are made, and the one of all processes."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta
from urllib.parse import urlsplit

from flambeau import _flambeau
from flambeau.distributed.stores import FileStore, PrefixStore, Store, TCPStore, seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "default_pg_timeout",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
]

default_pg_timeout = timedelta(minutes=30)

# The engines by the names of backends. PyTorch's name for its engine over TCP is accepted, so that programs run unchanged.
_BACKENDS = {"tcp": "tcp", "gloo": "tcp", "mpi": "mpi", "nccl": "nccl"}


class ProcessGroup:
    """Ranks that call collectives together."""

    def __init__(self, group: _flambeau._ProcessGroup, backend: str) -> None:
        self._group, self._backend = group, backend
        # What writes its checkpoints in the background, once there is one.
        self._writer: Any = None

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._group.rank()

    def size(self) -> int:
        """How many processes the group has."""
        return self._group.size()

    def name(self) -> str:
        """The name of the engine."""
        return self._backend

    def abort(self, reason: str = "by the program") -> None:
        """Breaks the group: calls that run fail on all ranks, and so do later ones."""
        self._group.abort(reason)

    def __repr__(self) -> str:
        return f"<ProcessGroup of ranks {self._group.ranks()}, this is {self.rank()} of {self.size()}>"


class _World:
    """The group of all processes, if there is one, and the groups that were made of it."""

    def __init__(self) -> None:
        self.group: ProcessGroup | None = None
        self.store: Store | None = None
        self.others: list[ProcessGroup] = []


_world = _World()


class _GroupNames(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes, or None before `init_process_group`."""
        return _world.group


class group(metaclass=_GroupNames):
    """The group of all processes, and what `new_group` returns to processes that are not in the new group."""

    NON_GROUP_MEMBER: Any = -100


GroupMember = group


def is_available() -> bool:
    """Whether this process is one of a job: a launcher started it, or it has a group. Packages that find distributed training also ask for
    parts of it that are not here, such as tensor parallelism; a process alone needs none of them."""
    return is_initialized() or {"RANK", "WORLD_SIZE"} <= os.environ.keys()


def is_backend_available(backend: str) -> bool:
    """Whether there is an engine of the name."""
    return backend.lower() in _BACKENDS


def is_gloo_available() -> bool:
    """Whether the name `gloo` is accepted: it means the engine over TCP."""
    return True


def is_nccl_available() -> bool:
    """Whether there is a library of NCCL."""
    return _flambeau._is_nccl_available()


def is_mpi_available() -> bool:
    """Whether there is a library of MPI with the standard ABI of MPI 5."""
    return _flambeau._is_mpi_available()


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process that restarts it: ours or torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_initialized() -> bool:
    """Whether the group of all processes exists."""
    return _world.group is not None


def _backend_of(backend: str | None) -> str:
    # PyTorch takes one engine for each kind of device too: "cpu:gloo,cuda:nccl". The engine by NCCL has tensors of both, and of those on a GPU
    # the others have the same bits.
    backend = backend or os.environ.get("FLAMBEAU_DISTRIBUTED_ENGINE", "tcp")
    names = [part.split(":")[-1].strip().lower() for part in backend.split(",")]
    if len(names) > 1 and "nccl" in names:
        names = ["nccl"] if is_nccl_available() else [name for name in names if name != "nccl"]
    found = next((name for name in names if name in _BACKENDS), None)
    if found is None:
        raise ValueError(f"init_process_group: expected a backend of {sorted(_BACKENDS)} but got {backend!r}")
    return found


def _store_of(init_method: str, rank: int, timeout: float) -> tuple[Store, str | None]:
    parts = urlsplit(init_method)
    if parts.scheme == "file":
        return FileStore(parts.path), None
    if parts.scheme == "tcp" and parts.hostname and parts.port is not None:
        return TCPStore(parts.hostname, parts.port, is_master=rank == 0, timeout=timeout), None
    raise ValueError(f"init_process_group: expected env://, tcp://host:port or file:///path but got {init_method!r}")


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    *,
    debug: bool | None = None,
    network: tuple[float, float] | None = None,
) -> None:
    """Connects this process to all others. Each calls it once, with its own rank.

    Without a store, `init_method` says how they meet: by the variables of a launcher (`env://`, the default), at an address
    (`tcp://host:port`), or in a file (`file:///path`). With the backend `mpi` its launcher has started the processes, and its library says
    which rank this is; with `nccl` tensors on GPUs are moved by NCCL. With `network`, messages are delayed by so many seconds and sent at so many bytes a
    second at most, to measure how a program would run on a slower network.
    """
    if _world.group is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name, seconds = _backend_of(backend), seconds_of(default_pg_timeout if timeout is None else timeout)
    if store is not None and init_method is not None:
        raise ValueError("init_process_group: expected a store or an init_method but got both")
    if store is None and init_method in (None, "env://") and world_size == rank == -1:
        made = _flambeau._ProcessGroup.from_env(_BACKENDS[name], seconds, debug, network)
    else:
        if store is None and init_method in (None, "env://"):
            init_method = f"tcp://{os.environ.get('MASTER_ADDR', '127.0.0.1')}:{os.environ.get('MASTER_PORT', '29500')}"
        if rank < 0 or world_size <= rank:
            raise ValueError(f"init_process_group: expected a rank from 0 on below world_size but got rank {rank} and world_size {world_size}")
        host = None
        if store is None:
            store, host = _store_of(str(init_method), rank, seconds)
        prefix = PrefixStore(f"default/{group_name}", store)
        made = _flambeau._ProcessGroup.connect(prefix._store, rank, world_size, host, _BACKENDS[name], seconds, debug, network)
    _world.group, _world.store = ProcessGroup(made, name), store


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Waits for the calls of a group, and closes it; without a group, closes all."""
    if group is not None and group is not _world.group:
        group._group.shutdown()
        _world.others = [other for other in _world.others if other is not group]
        return
    for other in _world.others:
        other._group.shutdown()
    if _world.group is not None:
        _world.group._group.shutdown()
    _world.others, _world.group, _world.store = [], None, None


# The other ranks are told that this one ends, and has not failed.
atexit.register(destroy_process_group)


def group_of(group: ProcessGroup | None) -> ProcessGroup:
    """The group, by default that of all processes."""
    if group is None:
        group = _world.group
    if not isinstance(group, ProcessGroup):
        reason = "this process is not in the group" if group is not None else "init_process_group was not called"
        raise ValueError(f"Default process group has not been initialized, please make sure to call init_process_group ({reason}).")
    return group


def is_member(group: Any) -> bool:
    """Whether this process is in the group, by default that of all processes."""
    return group is not GroupMember.NON_GROUP_MEMBER


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in the group; -1 if it is not in it."""
    return group_of(group).rank() if is_member(group) else -1


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes the group has; -1 if this process is not in it."""
    return group_of(group).size() if is_member(group) else -1


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment; consider passing fallback_rank")
    return fallback_rank


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name of the engine."""
    return group_of(group)._backend


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The processes of the group by their numbers in the whole job."""
    return group_of(group)._group.ranks()


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number in the whole job of a process of the group."""
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in the group of a process of the job."""
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_pg_count() -> int:
    """How many groups this process has."""
    return len(_world.others) + is_initialized()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes. All processes call it, in the same order, also those that the new group does not have."""
    world = group_of(None)
    made = world._group.new_group(list(range(world.size())) if ranks is None else list(ranks))
    if made is None:
        return GroupMember.NON_GROUP_MEMBER
    found = ProcessGroup(made, world._backend if backend is None else _backend_of(backend))
    _world.others.append(found)
    return found


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """One group for each list of ranks: that of this process, and all."""
    groups = [new_group(ranks, timeout, backend, pg_options) for ranks in ranks_per_subgroup_list]
    return next((found for found in groups if found is not GroupMember.NON_GROUP_MEMBER), None), groups


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` neighbouring ranks each: that of this process, and all."""
    size = get_world_size(group)
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    if group_size < 1 or size % group_size:
        raise ValueError(f"new_subgroups: expected a group_size that divides the number of processes, {size}, but got {group_size}")
    return new_subgroups_by_enumeration([range(first, first + group_size) for first in range(0, size, group_size)], timeout, backend)
