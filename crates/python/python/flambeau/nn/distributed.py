"""Data parallel training: gradients are averaged over the ranks while the backward pass runs."""

from __future__ import annotations

import contextlib

import flambeau
from flambeau import _flambeau
from flambeau.nn.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["DistributedDataParallel"]

_MEGABYTE = 1 << 20


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in what a module returned: in lists, tuples, dictionaries and objects with fields."""
    if isinstance(value, flambeau.Tensor):
        yield value
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif hasattr(value, "__dataclass_fields__"):
        yield from _tensors([getattr(value, name) for name in value.__dataclass_fields__])


def _device_of(module: Module, device_ids: Any) -> flambeau.device | None:
    """The device of `device_ids`, on which the module has to be: one, or none without them."""
    ids = [] if device_ids is None else list(device_ids)
    if not ids:
        return None
    device = flambeau.device("cuda", ids[0]) if isinstance(ids[0], int) else flambeau.device(ids[0])
    others = sorted({str(parameter.device) for parameter in module.parameters()} - {str(device)})
    if len(ids) > 1 or others:
        raise ValueError(
            f"DistributedDataParallel: expected device_ids of one device, on which the module is, but got {ids} and a module on {others or device}"
        )
    return device


def _moved(value: Any, device: flambeau.device) -> Any:
    """Arguments of a module, their tensors on the device."""
    if isinstance(value, flambeau.Tensor):
        return value.to(device)
    if type(value) in (list, tuple):
        return type(value)(_moved(part, device) for part in value)
    if type(value) is dict:
        return {name: _moved(part, device) for name, part in value.items()}
    return value


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the ranks of a group.

    All ranks begin with the parameters and buffers of rank 0. `deterministic=True` adds the gradients of micro-batches (the passes under
    `no_sync`, and the one after them) in the tree in which those of ranks are added, and divides by the number of micro-batches of all
    ranks; the losses are not to be scaled then. If each rank has the same power of two of them, 1, 2 and 4 ranks compute the same bits for
    one global batch. `compression` is the dtype in which gradients are sent, such as `flambeau.bfloat16`. `find_unused_parameters=True`
    searches the graph of the outputs for parameters that the backward pass will not reach, whose gradients count as zeros. With
    `device_ids=[device]` the tensors in the arguments of a call are moved to the device, on which the module is.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        *,
        deterministic: bool = False,
        compression: flambeau.dtype | None = None,
    ) -> None:
        from flambeau.distributed.groups import group_of

        super().__init__()
        self.device = _device_of(module, device_ids)
        self.module, self.dim, self.broadcast_buffers = module, dim, broadcast_buffers
        self.process_group = group_of(process_group)
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if init_sync:
            self._synchronize()
        capacity = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MEGABYTE)
        first = min(capacity, _MEGABYTE)
        group = self.process_group._group
        options = (capacity, first, deterministic, gradient_as_bucket_view, find_unused_parameters, compression)
        self.reducer = _flambeau._Reducer(parameters, group, *options)
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.require_backward_grad_sync = True

    def _synchronize(self) -> None:
        """Copies parameters and buffers of rank 0, after a comparison of their names and sizes."""
        from flambeau import distributed

        group = self.process_group
        state = [(name, value) for name, value in self.module.state_dict().items() if isinstance(value, flambeau.Tensor)]
        found: list[Any] = [[(name, str(value.dtype), tuple(value.shape)) for name, value in state]]
        mine = found[0]
        distributed.broadcast_object_list(found, group=group, group_src=0)
        if found[0] != mine:
            different = next((pair for pair in zip(found[0], mine) if pair[0] != pair[1]), (len(found[0]), len(mine)))
            raise RuntimeError(
                f"DistributedDataParallel: expected the model of rank 0, which has {different[0]}, but rank {group.rank()} has {different[1]}"
            )
        self._broadcast([value for _, value in state])

    def _broadcast(self, tensors: list[Any]) -> None:
        group = self.process_group._group
        for work in [group.broadcast(tensor.detach(), 0) for tensor in tensors]:
            work.wait()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward passes add to the gradients of this rank alone."""
        before = self.require_backward_grad_sync
        self._set_sync(False)
        try:
            yield
        finally:
            self._set_sync(before)

    def _set_sync(self, sync: bool) -> None:
        self.require_backward_grad_sync = sync
        self.reducer.set_sync(sync)

    def register_comm_hook(self, state: Any, hook: Callable[[Any, _flambeau.GradBucket], Any]) -> None:
        """Averages buckets by `hook(state, bucket)`, which returns a future of the averages, as one tensor like `bucket.buffer()`."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        self.reducer.set_hook(lambda bucket: hook(state, bucket))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.device is not None:
            inputs, kwargs = _moved(inputs, self.device), _moved(kwargs, self.device)
        if not flambeau.is_grad_enabled():
            return self.module(*inputs, **kwargs)
        self.reducer.prepare()
        if self.require_backward_grad_sync and self.broadcast_buffers and self.training:
            self._broadcast(list(self.module.buffers()))
        outputs = self.module(*inputs, **kwargs)
        if self.find_unused_parameters:
            self.reducer.find_unused(list(_tensors(outputs)))
        return outputs

    def __getstate__(self) -> Any:
        raise TypeError("DistributedDataParallel: expected a model to be saved but got its wrapper; save `model.module` or its state_dict")
