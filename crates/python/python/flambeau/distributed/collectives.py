"""Collectives and messages between ranks, with PyTorch's signatures."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import flambeau
from flambeau import _flambeau
from flambeau.distributed.groups import ProcessGroup, get_group_rank, group_of, is_member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "GradBucket",
    "P2POp",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "gather",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
    "supports_complex",
]

Work = _flambeau.Work
GradBucket = _flambeau.GradBucket


class _Op(NamedTuple):
    """A reduction, and the factor of `PREMUL_SUM`."""

    name: str
    factor: float = 1.0


class ReduceOp:
    """How a collective combines the tensors of the ranks."""

    SUM, AVG, PRODUCT, MIN, MAX = _Op("SUM"), _Op("AVG"), _Op("PRODUCT"), _Op("MIN"), _Op("MAX")
    BAND, BOR, BXOR = _Op("BAND"), _Op("BOR"), _Op("BXOR")
    RedOpType = _Op

    @staticmethod
    def PREMUL_SUM(factor: float) -> _Op:
        """The sum of the tensors, each multiplied by the factor."""
        return _Op("PREMUL_SUM", factor)


def _root(group: ProcessGroup, rank: int | None, group_rank: int | None, default: int | None = 0) -> int:
    """The number in the group of a rank that is given by its number in the job, or in the group."""
    if rank is not None and group_rank is not None:
        raise ValueError("Can't specify both a rank and a group rank")
    if group_rank is not None:
        return group_rank
    if rank is None:
        if default is None:
            raise ValueError("Must specify a rank or a group rank")
        return default
    return get_group_rank(group, rank)


def _run(group: ProcessGroup | None, async_op: bool, start: Callable[[ProcessGroup], Work]) -> Work | None:
    """Starts a collective, and waits for it unless `async_op`; nothing on a rank that the group does not have."""
    if not is_member(group):
        return None
    work = start(group_of(group))
    if async_op:
        return work
    work.wait()
    return None


def all_reduce(tensor: Tensor, op: _Op = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Replaces the tensor of every rank by the reduction of all."""
    return _run(group, async_op, lambda own: own._group.all_reduce(tensor, op))


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: _Op = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Replaces the tensor of rank `dst` by the reduction of all."""
    return _run(group, async_op, lambda own: own._group.reduce(tensor, _root(own, dst, group_dst, None), op))


def broadcast(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Replaces the tensor of every rank by that of rank `src`."""
    return _run(group, async_op, lambda own: own._group.broadcast(tensor, _root(own, src, group_src, None)))


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Writes the tensor of rank `i` to `tensor_list[i]`, on every rank."""
    return _run(group, async_op, lambda own: own._group.all_gather(list(tensor_list), tensor))


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Writes the tensors of all ranks one after another to `output_tensor`."""
    return _run(group, async_op, lambda own: own._group.all_gather_into_tensor(output_tensor, input_tensor))


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Writes the tensor of rank `i` to `gather_list[i]` of rank `dst`."""
    return _run(group, async_op, lambda own: own._group.gather(tensor, list(gather_list or ()), _root(own, dst, group_dst)))


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes `scatter_list[i]` of rank `src` to the tensor of rank `i`."""
    return _run(group, async_op, lambda own: own._group.scatter(tensor, list(scatter_list or ()), _root(own, src, group_src)))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: _Op = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Writes the reduction of all ranks' `input_list[i]` to `output` of rank `i`."""
    return _run(group, async_op, lambda own: own._group.reduce_scatter(output, list(input_list), op))


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: _Op = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """The same with the inputs one after another in one tensor."""
    return _run(group, async_op, lambda own: own._group.reduce_scatter_tensor(output, input, op))


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Writes `input_tensor_list[j]` of rank `i` to `output_tensor_list[i]` of rank `j`."""
    return _run(group, async_op, lambda own: own._group.all_to_all(list(output_tensor_list), list(input_tensor_list)))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """The same with the rows of one tensor, by default as many for each rank."""

    def start(own: ProcessGroup) -> Work:
        outputs = _rows_of_ranks("output", output, output_split_sizes, own.size())
        return own._group.all_to_all(outputs, _rows_of_ranks("input", input, input_split_sizes, own.size()))

    return _run(group, async_op, start)


def _rows_of_ranks(name: str, tensor: Tensor, sizes: Sequence[int] | None, count: int) -> list[Tensor]:
    """The rows of a tensor that belong to each of so many ranks."""
    rows = tensor.size(0)
    if not sizes and rows % count:
        raise ValueError(f"all_to_all_single: expected an {name} whose rows are divisible by {count} but got {rows} rows")
    return list(tensor.split(list(sizes) if sizes else [rows // count] * count))


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Waits until all ranks have called it."""
    return _run(group, async_op, lambda own: own._group.barrier())


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits until all ranks have called it; an error names those that have not."""
    if is_member(group):
        group_of(group)._group.barrier().wait(timeout)


def isend(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Sends a tensor to rank `dst` in the background."""
    if not is_member(group):
        return None
    group = group_of(group)
    return group._group.send(tensor, _root(group, dst, group_dst, None), tag)


def irecv(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Receives a tensor from rank `src`, or from any, in the background."""
    if not is_member(group):
        return None
    group = group_of(group)
    source = None if src is None and group_src is None else _root(group, src, group_src)
    return group._group.recv(tensor, source, tag)


def send(tensor: Tensor, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Sends a tensor to rank `dst`."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receives a tensor from rank `src`, or from any; returns the rank that sent it."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    source = work.source_rank()
    return -1 if source is None else group_of(group)._group.ranks()[source]


class P2POp:
    """A message that `batch_isend_irecv` starts."""

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("P2POp: expected isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Starts messages in both directions, in any order."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("batch_isend_irecv: expected a list of P2POp, at least one")
    works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    return [work for work in works if work is not None]


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: _Op = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors."""
    if not is_member(group):
        return None
    works = [group_of(group)._group.all_reduce(tensor, op) for tensor in tensors]
    if async_op:
        return works
    for work in works:
        work.wait()
    return None


def supports_complex(op: _Op) -> bool:
    """Whether complex tensors have the reduction."""
    return op.name in ("SUM", "AVG", "PRODUCT", "PREMUL_SUM")


def bytes_tensor(data: bytes) -> Tensor:
    """Bytes as a tensor, for messages."""
    return flambeau.frombuffer(bytearray(data), dtype=flambeau.uint8) if data else flambeau.empty(0, dtype=flambeau.uint8)
