"""An optimizer whose state is sharded over ranks: ZeRO, stage 1."""

from __future__ import annotations

import flambeau
from flambeau.distributed.groups import group_of
from flambeau.distributed.objects import all_gather_object
from flambeau.optim.optimizer import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from flambeau import Tensor

__all__ = ["ZeroRedundancyOptimizer"]


def _partition(params: list[Tensor], ranks: int) -> list[int]:
    """The rank of each parameter: the one with the fewest elements so far, beginning with the largest parameters."""
    owners, loads = [0] * len(params), [0] * ranks
    for index in sorted(range(len(params)), key=lambda index: -params[index].numel()):
        owners[index] = loads.index(min(loads))
        loads[owners[index]] += params[index].numel()
    return owners


class ZeroRedundancyOptimizer(Optimizer):
    """Each parameter belongs to one rank, which alone has the state of its optimizer and moves it; then the other ranks get its values.

    The gradients must be equal on all ranks, as `DistributedDataParallel` makes them.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not implemented")
        self.process_group = group_of(process_group)
        super().__init__(params, dict(defaults))
        self._all: list[Tensor] = [param for group in self.param_groups for param in group["params"]]
        self._owners = _partition(self._all, self.process_group.size())
        rank = self.process_group.rank()
        owner = {id(param): who for param, who in zip(self._all, self._owners, strict=True)}
        own = [
            {**{key: value for key, value in group.items() if key != "params"}, "params": [p for p in group["params"] if owner[id(p)] == rank]}
            for group in self.param_groups
        ]
        self._kept = [number for number, group in enumerate(own) if group["params"]]
        self.optim = optimizer_class([own[number] for number in self._kept], **defaults) if self._kept else None

    def _send_options(self) -> None:
        """Schedules change the options of all groups; this rank's optimizer gets them."""
        if self.optim is None:
            return
        for number, local in zip(self._kept, self.optim.param_groups, strict=True):
            group = self.param_groups[number]
            local.update({key: value for key, value in group.items() if key != "params"})
            # What the optimizer itself has added to a group, such as defaults, is visible to schedules.
            group.update({key: value for key, value in local.items() if key not in group})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves this rank's parameters, and gets those of the other ranks."""
        loss = None
        if closure is not None:
            with flambeau.enable_grad():
                loss = closure()
        self._send_options()
        if self.optim is not None:
            self.optim.step()
        group = self.process_group._group
        sent = [group.broadcast(param.detach(), owner) for param, owner in zip(self._all, self._owners, strict=True)]
        for work in sent:
            work.wait()
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all ranks, for `state_dict`. All ranks call it; it has an effect on rank `to`."""
        found: list[Any] = []
        own: dict[int, Any] = {}
        if self.optim is not None:
            numbers = {id(param): number for number, param in enumerate(self._all)}
            own = {numbers[id(param)]: state for param, state in self.optim.state.items()}
        all_gather_object(found, own, self.process_group)
        self._consolidated = {number: state for part in found for number, state in part.items()} if self.process_group.rank() == to else None

    def state_dict(self) -> dict[str, Any]:
        """The state of all ranks as the optimizer without sharding has it, after `consolidate_state_dict`."""
        consolidated = getattr(self, "_consolidated", None)
        if consolidated is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer: the state of all ranks is not on this rank; call consolidate_state_dict on all ranks before"
            )
        self._send_options()
        groups, first = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            groups.append({**{key: value for key, value in group.items() if key != "params"}, "params": list(range(first, first + count))})
            first += count
        return {"state": consolidated, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes this rank's part of the state of all ranks; their number may differ from that of the run that saved it."""
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({key: value for key, value in saved.items() if key != "params"})
        if self.optim is None:
            return
        numbers = {id(param): number for number, param in enumerate(self._all)}
        local = self.optim.state_dict()
        own = [param for group in self.optim.param_groups for param in group["params"]]
        state = {index: state_dict["state"][numbers[id(param)]] for index, param in enumerate(own) if numbers[id(param)] in state_dict["state"]}
        self.optim.load_state_dict({"state": state, "param_groups": local["param_groups"]})
        self._send_options()
