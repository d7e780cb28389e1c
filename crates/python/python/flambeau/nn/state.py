"""Saving and restoring a module's state: `state_dict` and `load_state_dict`."""

from __future__ import annotations

from collections import OrderedDict

import flambeau
from flambeau.nn.hooks import RemovableHandle, add_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable

    from flambeau import Tensor

EXTRA_STATE = _EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class IncompatibleKeys(tuple[list[str], list[str]]):
    """What `load_state_dict` did not find, and what it did not need; a pair with names."""

    __slots__ = ()

    def __new__(cls, missing_keys: list[str], unexpected_keys: list[str]) -> IncompatibleKeys:
        return super().__new__(cls, (missing_keys, unexpected_keys))

    missing_keys = property(lambda self: self[0])
    unexpected_keys = property(lambda self: self[1])

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"

    __str__ = __repr__


_IncompatibleKeys = IncompatibleKeys


class HasState:
    """The part of `Module` that is about its state."""

    if TYPE_CHECKING:
        _state_dict_hooks: OrderedDict[int, Any]
        _state_dict_pre_hooks: OrderedDict[int, Any]
        _load_state_dict_pre_hooks: OrderedDict[int, Any]
        _load_state_dict_post_hooks: OrderedDict[int, Any]
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _modules: dict[str, Any]
        _non_persistent_buffers_set: set[str]

    _version: int = 1

    def _init_state_hooks(self) -> None:
        for name in (
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            self.__dict__[name] = OrderedDict()

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after the module's state is gathered."""
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before the module's state is gathered."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` before loading."""
        return add_hook(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may take keys out of the lists."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False) -> RemovableHandle:
        """PyTorch's name from before the hook got the module, which packages use."""
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return self.register_load_state_dict_pre_hook(lambda module, *args: hook(*args))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """PyTorch's name from before hooks could not replace the state: what it returns, if not None, does."""
        return add_hook(self._state_dict_hooks, hook)

    def get_extra_state(self) -> Any:
        """What else a module saves; a subclass that has it has `set_extra_state` as well."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Restores what `get_extra_state` returned."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def state_dict(
        self, *args: Any, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by name; without history, unless `keep_vars`. They share their elements."""
        # The older form has the same arguments without names.
        given = dict(zip(("destination", "prefix", "keep_vars"), args))
        destination, prefix = given.get("destination", destination), given.get("prefix", prefix)
        keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        return destination

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Puts the module's own tensors, not those of its parts, into `destination`."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not HasState.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        buffers = {name: b for name, b in self._buffers.items() if name not in self._non_persistent_buffers_set}
        return {name: tensor for name, tensor in {**self._parameters, **buffers}.items() if tensor is not None}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Copies tensors from `state_dict` into the module's own of the same names.

        With `assign` it takes them in place of its own. With `strict`, names that are missing or too many are an error.
        """
        if not hasattr(state_dict, "items"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        loading = Loading(dict(state_dict), getattr(state_dict, "_metadata", {}), strict, assign)
        loading.visit(self, "")
        loading.note_unexpected()
        keys = IncompatibleKeys(loading.missing, loading.unexpected)
        loading.run_post_hooks(self, keys)
        loading.check(type(self).__name__)
        return keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Takes the module's own tensors, not those of its parts, from `state_dict`."""
        for name, tensor in self._own_state().items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            fault = self._take(name, tensor, state_dict[key], local_metadata.get("assign_to_params_buffers", False), key)
            if fault:
                error_msgs.append(fault)
        if type(self).set_extra_state is not HasState.set_extra_state:
            if prefix + EXTRA_STATE in state_dict:
                self.set_extra_state(state_dict[prefix + EXTRA_STATE])
            else:
                missing_keys.append(prefix + EXTRA_STATE)

    def _take(self, name: str, tensor: Tensor, given: Any, assign: bool, key: str) -> str | None:
        """Copies or assigns one tensor; returns what is wrong with it as text."""
        if not isinstance(given, flambeau.Tensor):
            return (
                f'While copying the parameter named "{key}", expected flambeau.Tensor or Tensor-like object '
                f"from checkpoint but received {type(given)}"
            )
        if given.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
        if assign:
            self._assign(name, tensor, given)
            return None
        try:
            with flambeau.no_grad():
                tensor.copy_(given)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} and '
                f"whose dimensions in the checkpoint are {given.shape}, an exception occurred : {error.args}."
            )
        return None

    def _assign(self, name: str, tensor: Tensor, given: Tensor) -> None:
        if name not in self._parameters:
            self._buffers[name] = given
        elif isinstance(given, type(tensor)):
            self._parameters[name] = given.requires_grad_(tensor.requires_grad)
        else:
            self._parameters[name] = type(tensor)(given, requires_grad=tensor.requires_grad)  # type: ignore[call-arg]


class Loading:
    """One run of `load_state_dict`: what there is to load, and what went wrong so far."""

    def __init__(self, state: dict[str, Any], metadata: Mapping[str, Any], strict: bool, assign: bool) -> None:
        self.state, self.metadata, self.strict, self.assign = state, metadata, strict, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []
        self.names: set[str] = set()

    def visit(self, module: HasState, prefix: str) -> None:
        """Loads a module and its parts."""
        local = dict(self.metadata.get(prefix[:-1], {}), assign_to_params_buffers=self.assign)
        # Every fault is noted, as PyTorch does; whether it is an error is decided at the end.
        more = (local, True, self.missing, self.unexpected, self.errors)
        for hook in module._load_state_dict_pre_hooks.values():
            hook(module, self.state, prefix, *more)
        module._load_from_state_dict(self.state, prefix, *more)
        self.names.update(prefix + name for name in module._own_state())
        if type(module).set_extra_state is not HasState.set_extra_state:
            self.names.add(prefix + EXTRA_STATE)
        for name, part in module._modules.items():
            if part is not None:
                self.visit(part, f"{prefix}{name}.")

    def note_unexpected(self) -> None:
        """Names that no module has."""
        noted = set(self.unexpected)
        self.unexpected.extend(key for key in self.state if key not in self.names and key not in noted)

    def run_post_hooks(self, module: HasState, keys: IncompatibleKeys) -> None:
        """Calls the hooks of submodules first, each with the keys below its own prefix."""
        for part in module._modules.values():
            if part is not None:
                self.run_post_hooks(part, keys)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise RuntimeError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                    "if incompatible_keys need to be modified, it should be done inplace."
                )

    def check(self, name: str) -> None:
        """Raises what went wrong, all at once."""
        faults = list(self.errors)
        if self.strict:
            for kind, keys in (("Missing", self.missing), ("Unexpected", self.unexpected)):
                if keys:
                    quoted = ", ".join(f'"{key}"' for key in keys)
                    faults.insert(len(faults) - len(self.errors), f"{kind} key(s) in state_dict: {quoted}. ")
        if faults:
            raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t" + "\n\t".join(faults))
