"""A module whose parameters are sharded over the ranks, and gathered while it runs."""

from __future__ import annotations

import contextlib
import math

import flambeau
from flambeau import nn
from flambeau.autograd import Function
from flambeau.autograd.graph import saved_tensors_hooks
from flambeau.distributed.checkpoint import Shard
from flambeau.distributed.collectives import ReduceOp
from flambeau.distributed.groups import group_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor
    from flambeau.optim import Optimizer

__all__ = ["FullyShardedDataParallel"]


class _Unit:
    """The parameters of one module as one tensor, of which each rank keeps a part of the same size."""

    def __init__(self, module: nn.Module, group: Any) -> None:
        self.group = group
        owners: dict[int, list[tuple[nn.Module, str]]] = {}
        found: dict[int, tuple[str, Tensor]] = {}
        for path, child in _own_modules(module):
            for name, param in list(child._parameters.items()):
                if param is not None:
                    found.setdefault(id(param), (f"{path}.{name}" if path else name, param))
                    owners.setdefault(id(param), []).append((child, name))
        params = [param for _, param in found.values()]
        kinds = {(param.dtype, param.requires_grad) for param in params}
        if len(kinds) > 1:
            raise ValueError(f"FullyShardedDataParallel: expected parameters of one dtype that all require gradients or none but got {kinds}")
        self.names = [name for name, _ in found.values()]
        self.shapes = [param.shape for param in params]
        self.owners = list(owners.values())
        self.count = sum(param.numel() for param in params)
        self.part = math.ceil(self.count / group.size())
        self.shard = self._sharded(params) if params else None
        for users in self.owners:
            for child, name in users:
                del child._parameters[name]
        self._gathered: Tensor | None = None

    def _sharded(self, params: list[Any]) -> nn.Parameter:
        """This rank's part of the parameters of rank 0."""
        whole = params[0].new_zeros(self.part * self.group.size())
        whole[: self.count] = flambeau.cat([param.detach().flatten() for param in params])
        self.group._group.broadcast(whole, 0).wait()
        first = self.group.rank() * self.part
        return nn.Parameter(whole[first : first + self.part].clone(), requires_grad=params[0].requires_grad)

    def parts(self, flat: Tensor) -> Iterator[tuple[str, Shard]]:
        """What this rank has of each parameter, or of a tensor like it: `flat` is like this rank's part of the parameters."""
        first, offset = self.group.rank() * self.part, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            count = math.prod(shape)
            start, end = max(offset, first), min(offset + count, first + self.part)
            if start < end:
                yield name, Shard(flat.detach()[start - first : end - first], tuple(shape), start - offset)
            offset += count

    def gather(self) -> Tensor:
        """All parameters, one after another."""
        assert self.shard is not None
        whole = self.shard.new_empty(self.part * self.group.size())
        self.group._group.all_gather_into_tensor(whole, self.shard.detach()).wait()
        return whole

    def views(self, whole: Tensor) -> tuple[Tensor, ...]:
        """The parameters in the tensor of all."""
        parts = whole[: self.count].split([math.prod(shape) for shape in self.shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, self.shapes, strict=True))

    def reduce(self, grads: tuple[Tensor | None, ...]) -> Tensor:
        """This rank's part of the gradients, averaged over the ranks."""
        assert self.shard is not None
        whole = self.shard.new_zeros(self.part * self.group.size())
        for view, grad in zip(self.views(whole), grads, strict=True):
            if grad is not None:
                view.copy_(grad)
        result = self.shard.new_empty(self.part)
        self.group._group.reduce_scatter_tensor(result, whole, ReduceOp.AVG).wait()
        self._gathered = None
        return result

    def hooks(self, whole: Tensor) -> saved_tensors_hooks:
        """Lets a graph save which part of the parameters it needs, instead of the parameters."""
        storage = whole.untyped_storage()

        def pack(tensor: Tensor) -> Any:
            if tensor.untyped_storage() != storage:
                return tensor
            return tensor.shape, tensor.stride(), tensor.storage_offset()

        def unpack(packed: Any) -> Tensor:
            if isinstance(packed, flambeau.Tensor):
                return packed
            if self._gathered is None:
                self._gathered = self.gather()
            return self._gathered.as_strided(*packed)

        return saved_tensors_hooks(pack, unpack)


class _Gather(Function):
    """Gathers the parameters; its derivative averages their gradients, and keeps this rank's part."""

    @staticmethod
    def forward(ctx: Any, unit: _Unit, whole: Tensor, shard: Tensor) -> tuple[Tensor, ...]:
        ctx.unit = unit
        ctx.set_materialize_grads(False)
        return unit.views(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return None, None, ctx.unit.reduce(grads)


def _own_modules(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The module and those in it, but for those that are sharded by themselves."""
    yield path, module
    for name, child in module.named_children():
        if not isinstance(child, FullyShardedDataParallel):
            yield from _own_modules(child, f"{path}.{name}" if path else name)


class FullyShardedDataParallel(nn.Module):
    """A module whose parameters are sharded over the ranks of a group.

    They are gathered before the module runs, and again in the backward pass; the gradients are averaged over the ranks, and each rank
    keeps those of its part. Optimizers get this rank's parts by `parameters()`; those that compute elementwise give the bits of training
    without sharding. To hold few parameters at a time, shard the modules inside of a module first: each is gathered by itself.
    """

    def __init__(self, module: nn.Module, process_group: Any = None) -> None:
        super().__init__()
        self.process_group = group_of(process_group)
        self._unit = _Unit(module, self.process_group)
        self.module = module
        self.flat_param = self._unit.shard

    @contextlib.contextmanager
    def _assigned(self, views: tuple[Tensor, ...]) -> Iterator[None]:
        """Gives the modules their parameters."""
        owners = self._unit.owners
        for view, users in zip(views, owners, strict=True):
            for child, name in users:
                child.__dict__[name] = view
        try:
            yield
        finally:
            for users in owners:
                for child, name in users:
                    child.__dict__.pop(name, None)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._unit.shard is None:
            return self.module(*inputs, **kwargs)
        whole = self._unit.gather()
        with self._unit.hooks(whole), self._assigned(_Gather.apply(self._unit, whole, self._unit.shard)):
            return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def summon_full_params(self) -> Iterator[None]:
        """Inside, the modules have all parameters, to be read. All ranks enter it."""
        with contextlib.ExitStack() as stack:
            for module in self.modules():
                if isinstance(module, FullyShardedDataParallel) and module._unit.shard is not None:
                    stack.enter_context(module._assigned(module._unit.views(module._unit.gather())))
            yield

    def full_state_dict(self) -> dict[str, Tensor]:
        """All parameters and buffers under the names that they have without sharding. All ranks call it."""
        return _full_state_dict(self.module, self._unit, "")

    def load_full_state_dict(self, state: dict[str, Tensor]) -> None:
        """Takes this rank's part of a state that `full_state_dict` returned, or a model without sharding."""
        with flambeau.no_grad():
            _load_full_state_dict(self.module, self._unit, state, "")

    def sharded_state_dict(self) -> dict[str, Any]:
        """This rank's parts of all parameters, and the buffers, for `distributed.checkpoint.save` and `load`. Loading fills the module."""
        state: dict[str, Any] = {}
        for prefix, module in _sharded(self, ""):
            if module._unit.shard is not None:
                state.update({prefix + name: part for name, part in module._unit.parts(module._unit.shard)})
            state.update(_buffers(module.module, prefix))
        return state

    def sharded_optim_state_dict(self, optimizer: Optimizer) -> dict[str, Any]:
        """The same of the state of an optimizer of these parameters. One that has made no step yet gets the state of none, for `load`."""
        if not optimizer.state:
            _initialize(optimizer)
        state: dict[str, Any] = {}
        for prefix, module in _sharded(self, ""):
            shard = module._unit.shard
            if shard is None or shard not in optimizer.state:
                continue
            for key, value in optimizer.state[shard].items():
                if value.shape == shard.shape:
                    state.update({f"state.{prefix}{name}.{key}": part for name, part in module._unit.parts(value)})
                else:
                    state.update({f"state.{prefix}{name}.{key}": value for name, _ in module._unit.parts(shard)})
        return state

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Scales the gradients of all ranks so that their norm is at most `max_norm`; returns what it was."""
        grads = [param.grad for param in self.parameters() if param.grad is not None]
        total = flambeau.zeros((), dtype=flambeau.float64)
        for grad in grads:
            total += grad.double().square().sum()
        self.process_group._group.all_reduce(total, ReduceOp.SUM).wait()
        norm = total.sqrt()
        factor = float(max_norm / (norm + 1e-6))
        if not factor >= 1:
            for grad in grads:
                grad.mul_(factor)
        return norm


def _sharded(module: FullyShardedDataParallel, prefix: str) -> Iterator[tuple[str, FullyShardedDataParallel]]:
    """A module and those in it that are sharded by themselves, with what the names of their parameters begin with."""
    yield prefix, module
    for inner, child in _inner(module.module, prefix):
        yield from _sharded(child, inner)


def _buffers(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    """The buffers of a module that are saved, without those of modules that are sharded by themselves."""
    found: dict[str, Tensor] = {}
    for path, child in _own_modules(module):
        for name, buffer in child._buffers.items():
            if buffer is not None and name not in child._non_persistent_buffers_set:
                found[prefix + (f"{path}.{name}" if path else name)] = buffer.detach()
    return found


def _initialize(optimizer: Optimizer) -> None:
    """Makes the state of an optimizer by a step that changes no parameter."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    grads, rates = [param.grad for param in params], [group["lr"] for group in optimizer.param_groups]
    values = [param.detach().clone() for param in params]
    for param in params:
        param.grad = flambeau.zeros_like(param)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    with flambeau.no_grad():
        for param, grad, value in zip(params, grads, values, strict=True):
            param.copy_(value)
            param.grad = grad


def _inner(module: nn.Module, prefix: str) -> Iterator[tuple[str, FullyShardedDataParallel]]:
    """The modules in it that are sharded by themselves."""
    for name, child in module.named_children():
        if isinstance(child, FullyShardedDataParallel):
            yield f"{prefix}{name}.", child
        else:
            yield from _inner(child, f"{prefix}{name}.")


def _full_state_dict(module: nn.Module, unit: _Unit, prefix: str) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    if unit.shard is not None:
        state.update({prefix + name: view.clone() for name, view in zip(unit.names, unit.views(unit.gather()), strict=True)})
    state.update(_buffers(module, prefix))
    for inner, sharded in _inner(module, prefix):
        state.update(_full_state_dict(sharded.module, sharded._unit, inner))
    return state


def _load_full_state_dict(module: nn.Module, unit: _Unit, state: dict[str, Tensor], prefix: str) -> None:
    if unit.shard is not None:
        missing = [prefix + name for name in unit.names if prefix + name not in state]
        if missing:
            raise RuntimeError(f"FullyShardedDataParallel: expected a state with {missing} but they are missing")
        whole = unit.shard.new_zeros(unit.part * unit.group.size())
        for name, view in zip(unit.names, unit.views(whole), strict=True):
            view.copy_(state[prefix + name])
        first = unit.group.rank() * unit.part
        unit.shard.copy_(whole[first : first + unit.part])
    for path, child in _own_modules(module):
        for name, buffer in child._buffers.items():
            key = prefix + (f"{path}.{name}" if path else name)
            if buffer is not None and key in state:
                buffer.copy_(state[key])
    for inner, sharded in _inner(module, prefix):
        _load_full_state_dict(sharded.module, sharded._unit, state, inner)
