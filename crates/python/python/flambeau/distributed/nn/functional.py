"""Collectives with derivatives: each returns new tensors, and its gradient is the opposite collective."""

from __future__ import annotations

import flambeau
from flambeau.autograd import Function
from flambeau.distributed.collectives import ReduceOp, _root
from flambeau.distributed.groups import group_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["all_gather", "all_reduce", "all_to_all_single", "broadcast", "reduce_scatter"]


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, op: Any, tensor: Tensor) -> Tensor:
        ctx.group, ctx.op = group, op
        result = tensor.clone(memory_format=flambeau.contiguous_format)
        group._group.all_reduce(result, op).wait()
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.group, ctx.op, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.group = group
        result = tensor.new_empty((group.size(), *tensor.shape))
        group._group.all_gather_into_tensor(result, tensor).wait()
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, _ReduceScatter.apply(ctx.group, grad)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, stacked: Tensor) -> Tensor:
        ctx.group = group
        result = stacked.new_empty(stacked.shape[1:])
        group._group.reduce_scatter_tensor(result, stacked.contiguous(), ReduceOp.SUM).wait()
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, _AllGather.apply(ctx.group, grad)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, root: int, tensor: Tensor) -> Tensor:
        ctx.group, ctx.root = group, root
        result = tensor.clone(memory_format=flambeau.contiguous_format)
        group._group.broadcast(result, root).wait()
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _AllReduce.apply(ctx.group, ReduceOp.SUM, grad)
        return None, None, total if ctx.group.rank() == ctx.root else flambeau.zeros_like(total)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: list[int], inputs: list[int], tensor: Tensor) -> Tensor:
        ctx.group, ctx.outputs, ctx.inputs = group, outputs, inputs
        result = tensor.new_empty((sum(outputs), *tensor.shape[1:]))
        group._group.all_to_all(list(result.split(outputs)), list(tensor.contiguous().split(inputs))).wait()
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _AllToAll.apply(ctx.group, ctx.inputs, ctx.outputs, grad)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors of all ranks, or their average."""
    if op.name not in ("SUM", "AVG"):
        raise NotImplementedError(f"all_reduce: the derivative of {op.name} is not implemented, only those of SUM and AVG")
    result: Tensor = _AllReduce.apply(group_of(group), op, tensor)
    return result


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks."""
    result: tuple[Tensor, ...] = _AllGather.apply(group_of(group), tensor).unbind(0)
    return result


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum over all ranks of the tensor in the list that belongs to this rank. `output` is not written."""
    if op.name != "SUM":
        raise NotImplementedError(f"reduce_scatter: the derivative of {op.name} is not implemented, only that of SUM")
    result: Tensor = _ReduceScatter.apply(group_of(group), flambeau.stack(list(input_list)))
    return result


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`."""
    found = group_of(group)
    result: Tensor = _Broadcast.apply(found, _root(found, src, None), tensor)
    return result


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Rows of the tensor for each rank; the rows of all ranks for this one. `output` gives the number of rows, and is not written."""
    found = group_of(group)
    size = found.size()
    outputs = output_split_sizes or [output.shape[0] // size] * size
    inputs = input_split_sizes or [input.shape[0] // size] * size
    result: Tensor = _AllToAll.apply(found, list(outputs), list(inputs), input)
    return result
