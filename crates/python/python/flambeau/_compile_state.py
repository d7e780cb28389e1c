"""What a compiled function reads beside its arguments, as a text that is a part of a plan's key."""

from __future__ import annotations

import builtins
import dis
import functools
import types

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Values that a plan may depend on: they are a part of its key by their text.
SIMPLE = (int, float, complex, str, bytes, bool, type(None), flambeau.dtype, flambeau.device, type(Ellipsis))
# Packages whose functions read their arguments only, or what the operators see too.
TRUSTED = {"flambeau", "torch", "math", "operator", "typing", "collections", "functools", "itertools", "einops"}
PURE = {
    *("abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "getattr", "hasattr"),
    *("int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "pow", "range", "repr", "reversed"),
    *("round", "set", "slice", "sorted", "str", "sum", "super", "tuple", "type", "zip", "ValueError", "TypeError", "RuntimeError"),
    *("AssertionError", "NotImplementedError", "IndexError", "KeyError", "StopIteration", "object", "property", "NotImplemented"),
}
# Instructions that change what outlives the call, which a plan would not do again.
WRITES = {"STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_DEREF", "IMPORT_NAME"}


class Unknown(Exception):
    """Something of which nobody can say whether it is the same in the next call."""


def text_of(value: Any) -> str:
    """A text that differs where a plan may: of numbers and strings, and of containers of them."""
    if isinstance(value, SIMPLE):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, (tuple, list)) and len(value) <= 64:
        return f"{type(value).__name__}({','.join(map(text_of, value))})"
    if isinstance(value, dict) and len(value) <= 64:
        return "{" + ",".join(f"{text_of(k)}={text_of(v)}" for k, v in value.items()) + "}"
    raise Unknown(f"an argument of type {type(value).__name__}")


@functools.cache
def _module_attributes() -> frozenset[str]:
    """The attributes that every module has."""
    return frozenset(vars(flambeau.nn.Module()))


def _is_trusted(name: str | None) -> bool:
    return (name or "").partition(".")[0] in TRUSTED


@functools.lru_cache(maxsize=4096)
def _analysed(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], str]:
    """The globals and the attributes that code reads, with those of the code inside of it, and what it writes, or nothing."""
    read: set[str] = set()
    attributes: set[str] = set()
    written = ""
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        inner = operation == "STORE_DEREF" and argument in code.co_cellvars
        if operation in WRITES and not inner:
            written = f"{code.co_name}, which writes or imports {argument}"
        if operation in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(argument)
        elif operation in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(argument)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            more, others, inside = _analysed(constant)
            read |= more
            attributes |= others
            written = written or inside
    return frozenset(read), frozenset(attributes), written


def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    read, attributes, written = _analysed(code)
    if written:
        raise Unknown(written)
    return read, attributes


class State:
    """The texts of all that a function and the functions that it calls read."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.kept: list[Any] = []
        self._seen: set[int] = set()

    def add(self, value: Any) -> None:
        """Adds a value that is read; `Unknown` where it may change unseen."""
        if isinstance(value, SIMPLE):
            self.parts.append(text_of(value))
        elif isinstance(value, tuple):
            self.parts.append(f"tuple {len(value)}")
            for part in value:
                self.add(part)
        elif isinstance(value, Tensor):
            self._identity(value, f"{tuple(value.shape)} {value.dtype} {value.requires_grad}")
        elif isinstance(value, flambeau.nn.Module):
            self._module(value)
        elif isinstance(value, types.ModuleType):
            if not _is_trusted(value.__name__):
                raise Unknown(f"the module {value.__name__}")
        elif isinstance(value, type):
            if not _is_trusted(value.__module__) and value.__name__ not in PURE:
                raise Unknown(f"the class {value.__name__}")
        elif callable(value):
            self._callable(value)
        else:
            raise Unknown(f"a value of type {type(value).__name__}")

    def _identity(self, value: Any, text: str) -> None:
        # What is kept has its address for itself.
        self.kept.append(value)
        self.parts.append(f"{id(value)} {text}")

    def _callable(self, function: Any) -> None:
        if isinstance(function, types.MethodType):
            self.add(function.__self__)
            self._callable(function.__func__)
        elif isinstance(function, functools.partial):
            self.add(function.func)
            self.add(function.args)
            self.add(tuple(function.keywords.items()))
        elif _is_trusted(getattr(function, "__module__", None)) or _is_trusted(type(function).__module__):
            self._identity(function, "callable")
        elif isinstance(function, types.FunctionType):
            self._function(function)
        else:
            raise Unknown(f"a callable of type {type(function).__name__}")

    def _function(self, function: types.FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        self._identity(code, code.co_name)
        self.add(function.__defaults__)
        self.add(tuple((function.__kwdefaults__ or {}).items()))
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # not assigned yet
                self.parts.append("empty")
        for name in sorted(_names(code)[0]):
            if name in function.__globals__:
                self.parts.append(name)
                self.add(function.__globals__[name])
            elif name not in PURE and hasattr(builtins, name):
                raise Unknown(f"{name}()")

    def _module(self, module: Any) -> None:
        for name, part in module.named_modules():
            kind = type(part)
            self.parts.append(name)
            self._identity(kind, kind.__name__)
            for key, value in vars(part).items():
                if key in ("_parameters", "_buffers"):
                    self.add(tuple(value.values()))
                elif key not in _module_attributes() or key == "training":
                    self.parts.append(key)
                    self.add(value)
                elif "hooks" in key and "state_dict" not in key and value:
                    raise Unknown(f"the hooks of {kind.__name__}")
            self._methods(kind, {"forward"})

    def _methods(self, kind: type, names: set[str]) -> None:
        """The methods and class attributes of these names, and those that the methods read."""
        todo, done = set(names), set()
        while todo:
            name = todo.pop()
            done.add(name)
            owner = next((owner for owner in kind.__mro__ if name in vars(owner)), None)
            if owner is None or _is_trusted(owner.__module__) or owner is object:
                continue
            value = vars(owner)[name]
            value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            self.add(value)
            if isinstance(value, types.FunctionType):
                todo |= _names(value.__code__)[1] - done


def state_of(function: Any) -> tuple[str, list[Any]]:
    """The text, and what has to be kept for it to stay true."""
    state = State()
    state.add(function)
    return ";".join(state.parts), state.kept
