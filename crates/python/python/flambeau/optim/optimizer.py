"""The base of all optimisers: groups of parameters with their options, and a state for each parameter."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import flambeau
from flambeau import _dispatch, _sparse
from flambeau.nn.hooks import RemovableHandle, add_hook
from flambeau.nn.module import clear_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

    from flambeau import Tensor

    Group = dict[str, Any]
    Parameters = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]

HOOKS = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")


class _Required:
    """The default of a required option."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` of a subclass's own, with the hooks before and after it, once where it calls another `step`."""
    import functools

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__.get("_is_stepping") or "_hooks" not in self.__dict__:
            return step(self, *args, **kwargs)
        self.__dict__["_is_stepping"] = True
        try:
            given, kwargs = self._before_step((self, *args), kwargs)
            result = step(*given, **kwargs)
            for hook in self._hooks["step_post"].values():
                hook(self, given, kwargs)
            return result
        finally:
            del self.__dict__["_is_stepping"]

    return hooked


class Optimizer:
    """Changes parameters by their gradients.

    A subclass has `_update(group)`, which does a step for the parameters of one group, or a `step` of its own. What `_update` needs
    memory for, it says by `_first_state(param, group)` and `_scratch_count(group)`: that is had before anything is written, so that a
    step that runs out of memory changes nothing.
    """

    # Whether steps are implemented for sparse gradients.
    _takes_sparse = False

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        if isinstance(params, flambeau.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got flambeau.Tensor"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._hooks: dict[str, OrderedDict[int, Any]] = {name: OrderedDict() for name in HOOKS}
        # Schedulers warn where they step before the optimiser does.
        self._steps_taken = 0
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)  # type: ignore[arg-type]

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "step" in cls.__dict__:
            setattr(cls, "step", _with_hooks(cls.__dict__["step"]))

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters, with options of their own; those it does not name are the optimiser's."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will "
                "change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, flambeau.Tensor) else list(params)
        if params and all(isinstance(param, tuple) for param in params):
            param_group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            raise ValueError("all optimizer param groups should be with/without names. Got a mixture of both.")
        self._check_params(params)
        param_group["params"] = params
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, value)
        self.param_groups.append(param_group)

    def _check_params(self, params: list[Any]) -> None:
        for param in params:
            if not isinstance(param, flambeau.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        if len({id(param) for param in params}) < len(params):
            import warnings

            warnings.warn("optimizer contains a parameter group with duplicate parameters", stacklevel=4)
        known = {id(param) for group in self.param_groups for param in group["params"]}
        if any(id(param) in known for param in params):
            raise ValueError("some parameters appear in more than one parameter group")

    # Steps.

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates all parameters that have a gradient; `closure` computes the loss, which is returned, and the gradients."""
        hooked = self.__dict__.get("_is_stepping", False)
        args, kwargs = (self,), {"closure": closure} if closure is not None else {}
        if not hooked:
            args, kwargs = self._before_step(args, kwargs)
        closure = kwargs.get("closure")
        with flambeau.no_grad():
            loss = None
            if closure is not None:
                with flambeau.enable_grad():
                    loss = closure()
            self._allocate_state()
            try:
                for group in self.param_groups:
                    self._update(group)
            finally:
                self.__dict__.pop("_scratch", None)
                self.__dict__.pop("_created", None)
        self._steps_taken += 1
        for hook in () if hooked else self._hooks["step_post"].values():
            hook(self, args, kwargs)
        return loss

    def _before_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for hook in self._hooks["step_pre"].values():
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
            args, kwargs = changed
        return args, kwargs

    def _allocate_state(self) -> None:
        """Allocates all that a step needs: states of parameters that have none yet, and scratch tensors for intermediate results."""
        created: dict[Tensor, dict[str, Any]] = {}
        lengths: dict[tuple[Any, Any], list[int]] = {}
        for group in self.param_groups:
            count = self._scratch_count(group)
            for param in group["params"]:
                if param.grad is None:
                    continue
                if self._is_new(param, group):
                    created[param] = {**self.state.get(param, {}), **self._first_state(param, group)}
                sizes = lengths.setdefault((param.dtype, param.device), [])
                sizes.extend([0] * (count - len(sizes)))
                sizes[:count] = [max(size, param.numel()) for size in sizes[:count]]
        self._scratch = {
            (dtype, device): [flambeau.empty(size, dtype=dtype, device=device) for size in sizes]
            for (dtype, device), sizes in lengths.items()
        }
        self._created = created
        self.state.update(created)

    def _scratch_tensor(self, param: Tensor, index: int) -> Tensor:
        """Scratch tensor `index` with the sizes and dtype of `param`, which other parameters use as well."""
        if _dispatch.has_dispatch(type(param)):
            return flambeau.empty_like(param).detach()
        return self._scratch[param.dtype, param.device][index][: param.numel()].view(param.shape)

    def _gradients(self, group: Group, decay: float) -> Iterator[tuple[Tensor, Tensor]]:
        """The group's parameters that have a gradient, and the gradient, negated to maximise and with weight decay; where it
        is not the parameter's own it is in the first scratch tensor, which groups that `changes_gradients` have."""
        for param in group["params"]:
            grad = param.grad
            if grad is not None:
                yield param, self._changed_gradient(param, grad, group, decay)

    def _changed_gradient(self, param: Tensor, grad: Tensor, group: Group, decay: float) -> Tensor:
        """That of one parameter, as `_gradients` says."""
        if _sparse.is_layout(grad):
            return self._sparse_gradient(grad, group, decay)
        if group["maximize"]:
            grad = flambeau.neg(grad, out=self._scratch_tensor(param, 0))
        if decay != 0:
            grad = flambeau.add(grad, param, alpha=decay, out=self._scratch_tensor(param, 0))
        return grad

    def _sparse_gradient(self, grad: Tensor, group: Group, decay: float) -> Tensor:
        """A coalesced sparse gradient, negated to maximise; an error where steps depend on elements that it does not have."""
        if not self._takes_sparse:
            name = type(self).__name__
            raise RuntimeError(f"{name} does not support sparse gradients, please consider SparseAdam instead")
        if decay != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = grad.coalesce()
        return -grad if group["maximize"] else grad

    def _is_new(self, param: Tensor, group: Group) -> bool:
        """Whether a parameter has no state yet, and needs one."""
        return False

    def _first_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        """What a parameter begins with."""
        raise NotImplementedError

    def _scratch_count(self, group: Group) -> int:
        """How many tensors like a parameter `_update` needs at a time."""
        return 0

    def _update(self, group: Group) -> None:
        """A step for the parameters of one group."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Takes gradients away, or makes them 0."""
        for group in self.param_groups:
            for param in group["params"]:
                clear_grad(param, set_to_none)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; what it returns, if not None, replaces them."""
        return add_hook(self._hooks["step_pre"], hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._hooks["step_post"], hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict`."""
        return add_hook(self._hooks["state_dict_pre"], hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict`; what it returns, if not None, replaces it."""
        return add_hook(self._hooks["state_dict_post"], hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading; what it returns, if not None, replaces it."""
        return add_hook(self._hooks["load_state_dict_pre"], hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after loading."""
        return add_hook(self._hooks["load_state_dict_post"], hook, prepend)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """The state by number of the parameter, and the groups, with numbers instead of parameters."""
        for hook in self._hooks["state_dict_pre"].values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {numbers[id(key)] if isinstance(key, flambeau.Tensor) else key: v for key, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._hooks["state_dict_post"].values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over state and options; the parameters stay, by their order."""
        import copy

        state_dict = dict(state_dict)
        for hook in self._hooks["load_state_dict_pre"].values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = copy.deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(there["params"]) != len(here["params"]) for there, here in zip(saved, self.param_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        params: dict[int, Tensor] = {}
        for there, here in zip(saved, self.param_groups):
            params.update(zip(there["params"], here["params"]))
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = {name: _fitted(params[key], name, part) for name, part in value.items()}
            else:
                state[key] = value
        self.state = state
        self.param_groups = [{**there, "params": here["params"]} for there, here in zip(saved, self.param_groups)]
        for hook in self._hooks["load_state_dict_post"].values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for index, group in enumerate(self.param_groups):
            text += f"\nParameter Group {index}\n"
            text += "".join(f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params")
        return text + ")"


def _fitted(param: Tensor, name: str, value: Any) -> Any:
    """A copy of saved state that fits the parameter's dtype; counts of steps stay what they are."""
    if not isinstance(value, flambeau.Tensor):
        import copy

        return copy.deepcopy(value)
    fits = name == "step" or not param.is_floating_point()
    return value.detach().clone() if fits else value.detach().to(param.dtype, copy=True)


def rows_of(grad: Tensor) -> tuple[Any, Tensor]:
    """The index of the elements that a coalesced sparse gradient has, for tensors of the parameter's sizes, and its values."""
    return tuple(grad._indices().unbind(0)), grad._values()


def refuse(what: str, value: Any, fine: bool | Tensor) -> None:
    """A ValueError unless the option makes sense."""
    if not fine:
        raise ValueError(f"Invalid {what}: {value}")


def refuse_choices(capturable: bool, differentiable: bool) -> None:
    """Refuses options of PyTorch that are not implemented."""
    for name, chosen in (("capturable", capturable), ("differentiable", differentiable)):
        if chosen:
            raise NotImplementedError(f"expected {name}=False but got True: there are no such steps here")


def changes_gradients(group: Group) -> bool:
    """Whether steps are not made of the gradients themselves."""
    return group["maximize"] or group["weight_decay"] != 0
