"""The base of all layers: it knows its parameters, buffers and parts by name, and calls `forward`."""

from __future__ import annotations

from collections import OrderedDict

import flambeau
from flambeau import Tensor
from flambeau.nn.conversion import Converts
from flambeau.nn.hooks import RemovableHandle, add_hook
from flambeau.nn.parameter import Buffer, Parameter
from flambeau.nn.state import HasState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable, TypeVar

    T = TypeVar("T", bound="Module")

# Hooks of all modules, and functions that are called when a parameter, buffer or module is registered.
_global_forward_hooks: OrderedDict[int, Any] = OrderedDict()
_global_forward_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Any] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Any] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Any] = OrderedDict()


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Calls `hook(module, args, output)` after `forward` of every module; what it returns, if not None, replaces the output."""
    return add_hook(_global_forward_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, args)` before `forward` of every module; what it returns, if not None, replaces the arguments."""
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, param)` for every parameter that is registered; what it returns, if not None, replaces it."""
    return add_hook(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` for every buffer that is registered; what it returns, if not None, replaces it."""
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, part)` for every module that is registered; what it returns, if not None, replaces it."""
    return add_hook(_global_module_registration_hooks, hook)


def _announced(hooks: OrderedDict[int, Any], module: Any, name: str, value: Any) -> Any:
    """What the registration hooks make of a value."""
    for hook in hooks.values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


class Module(HasState, Converts):
    """A layer, or a network of layers.

    Tensors and modules that are assigned to its attributes become its own: a `Parameter` in `parameters()`, a `Buffer` in
    `buffers()`, a `Module` in `children()`.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        for name in ("_parameters", "_buffers", "_modules"):
            own[name] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_forward_pre_hooks"] = OrderedDict()
        own["_forward_pre_hooks_with_kwargs"] = OrderedDict()
        own["_forward_hooks"] = OrderedDict()
        own["_forward_hooks_with_kwargs"] = OrderedDict()
        own["_forward_hooks_always_called"] = OrderedDict()
        own["_backward_pre_hooks"] = OrderedDict()
        own["_backward_hooks"] = OrderedDict()
        self._init_state_hooks()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass has its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # Calls.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward_pre_hooks or self._forward_hooks or self._backward_hooks or self._backward_pre_hooks:
            return self._call_with_hooks(args, kwargs)
        if _global_forward_hooks or _global_forward_pre_hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        try:
            for hook in list(_global_forward_pre_hooks.values()):
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            args, kwargs = self._run_pre_hooks(args, kwargs)
            result = self._forward_with_gates(args, kwargs)
            for hook in list(_global_forward_hooks.values()):
                changed = hook(self, args, result)
                result = result if changed is None else changed
            for key, hook in list(self._forward_hooks.items()):
                called.add(key)
                result = self._run_hook(key, hook, args, kwargs, result)
            return result
        except Exception:
            for key in self._forward_hooks_always_called:
                if key not in called and key in self._forward_hooks:
                    self._run_hook(key, self._forward_hooks[key], args, kwargs, None)
            raise

    def _forward_with_gates(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not (self._backward_hooks or self._backward_pre_hooks):
            return self.forward(*args, **kwargs)
        from flambeau.nn.backward_hooks import call

        return call(self, args, kwargs, self.forward)

    def _run_pre_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        for key, hook in list(self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _run_hook(self, key: int, hook: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Any:
        more = (kwargs,) if key in self._forward_hooks_with_kwargs else ()
        changed = hook(self, args, *more, result)
        return result if changed is None else changed

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before `forward`; what it returns, if not None, replaces the arguments."""
        return add_hook(self._forward_pre_hooks, hook, prepend, (self._forward_pre_hooks_with_kwargs, with_kwargs))

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after `forward`; what it returns, if not None, replaces the output."""
        flags = ((self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call))
        return add_hook(self._forward_hooks, hook, prepend, *flags)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older name of `register_full_backward_hook`, which is called for the module as a whole too."""
        return self.register_full_backward_hook(hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` in the backward pass; what it returns, if not None, replaces the gradients."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when the gradients of the inputs are known.

        What it returns, if not None, replaces the gradients of the inputs.
        """
        return add_hook(self._backward_hooks, hook, prepend)

    # Registration.

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter, or a name for one that is None for now."""
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (flambeau.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                "To express it as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = _announced(_global_parameter_registration_hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not trained; `state_dict` has it if `persistent`."""
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (flambeau.Tensor or None required)")
        self._buffers[name] = _announced(_global_buffer_registration_hooks, self, name, tensor)
        keep = self._non_persistent_buffers_set
        keep.discard(name) if persistent else keep.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a part."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = _announced(_global_module_registration_hooks, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: str, members: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: "{name}"')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in members:
            raise KeyError(f"attribute '{name}' already exists")

    # Attributes.

    def __getattr__(self, name: str) -> Any:
        # Every `self.weight` in every `forward` calls this, so there is no loop, and parameters are looked up first.
        own = self.__dict__
        if "_modules" in own:
            if name in (members := own["_parameters"]):
                return members[name]
            if name in (members := own["_modules"]):
                return members[name]
            if name in (members := own["_buffers"]):
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, (Parameter, Module, Buffer)):
            if "_modules" not in own:
                kind = "parameters" if isinstance(value, Parameter) else "module" if isinstance(value, Module) else "buffer"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            self._register_member(name, value)
            return
        for members, expected in (("_parameters", "Parameter"), ("_modules", "Module"), ("_buffers", "Tensor")):
            if name in own.get(members, ()):
                fits = value is None or (members == "_buffers" and isinstance(value, Tensor))
                if not fits:
                    kind = {"_parameters": "parameter", "_modules": "child module", "_buffers": "buffer"}[members]
                    raise TypeError(f"cannot assign '{type(value).__name__}' as {kind} '{name}' ({expected} or None expected)")
                own[members][name] = value
                return
        object.__setattr__(self, name, value)

    def _register_member(self, name: str, value: Parameter | Module | Buffer) -> None:
        """Registers a parameter, module or buffer under a name, instead of whatever had the name."""
        kinds: dict[str, Any] = {"_parameters": Parameter, "_modules": Module, "_buffers": Buffer}
        own_kind = next(members for members, kind in kinds.items() if isinstance(value, kind))
        self.__dict__.pop(name, None)
        for members in kinds:
            if members != own_kind:
                self.__dict__[members].pop(name, None)
        if own_kind == "_parameters":
            self.register_parameter(name, value)  # type: ignore[arg-type]
        elif own_kind == "_buffers":
            self.register_buffer(name, value, value.persistent)  # type: ignore[arg-type, union-attr]
        else:
            # As in PyTorch the class is not searched for the name: its `__getattr__` may look into the module that is new.
            self._modules[name] = _announced(_global_module_registration_hooks, self, name, value)

    def __delattr__(self, name: str) -> None:
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]
        return sorted(name for name in names if name.isidentifier())

    # Iteration.

    def _named_members(
        self, members: Callable[[Module], Any], prefix: str, recurse: bool, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their names, each once."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, each once."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their names, each once."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Parts with their names, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """Parts, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def get_submodule(self, target: str) -> Module:
        """The module with a name like `encoder.layers.0`."""
        module: Module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Sets the module with a name like `encoder.layers.0`, which with `strict` must exist already."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not isinstance(getattr(parent, name, None), Module):
            raise AttributeError(f"{type(parent).__name__} has no module `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with a name like `encoder.weight`."""
        return self._get_member(target, "_parameters", "nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with a name like `norm.running_mean`."""
        return self._get_member(target, "_buffers", "a buffer")

    def _get_member(self, target: str, members: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if module.__dict__[members].get(name) is None:
            raise AttributeError(f"`{name}` is not {kind}")
        return module.__dict__[members][name]

    # Modes.

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Calls `fn` for every part, deepest first, and for this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: T, mode: bool = True) -> T:
        """Makes it and its parts train, or not."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Whether gradients of the parameters are recorded."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        return list(self._backward_hooks.values()), []

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return Module.__call__(self, *args, **kwargs)

    def share_memory(self) -> Module:
        """Moves parameters and buffers to shared memory: processes that get the module train the same ones."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Takes the gradients away, or makes them 0."""
        for param in self.parameters():
            clear_grad(param, set_to_none)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Fuses the elementwise operators of `forward`: see `flambeau.compile`. Arguments are accepted and have no effect."""
        self.__dict__["forward"] = flambeau.compile(self.forward)

    def cuda(self: T, device: Any = None) -> T:
        """Moves everything to a CUDA device."""
        return self.to(flambeau.device("cuda") if device is None or isinstance(device, int) else device)

    # Text.

    def extra_repr(self) -> str:
        """What `repr` says in the brackets."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        parts = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        if not parts and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return self._get_name() + "(\n  " + "\n  ".join(lines + parts) + "\n)"


def indented(text: str) -> str:
    """The text with all lines but the first moved in."""
    return text.replace("\n", "\n  ")


def clear_grad(param: Tensor, set_to_none: bool) -> None:
    """Takes a gradient away, or makes it 0, which then has no history."""
    if param.grad is None:
        return
    if set_to_none:
        param.grad = None
        return
    if param.grad.grad_fn is not None:
        param.grad.detach_()
    else:
        param.grad.requires_grad_(False)
    param.grad.zero_()
