"""Operators by namespace, name and overload: `flambeau.ops.aten.add.Tensor(x, y)`."""

from __future__ import annotations

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class Alias:
    """Which memory an argument or a result shares, by letters, and whether the operator writes it."""

    def __init__(self, letters: list[str], is_write: bool) -> None:
        self.before_set, self.after_set, self.is_write = set(letters), set(letters), is_write


class Argument:
    """An argument or a result of a schema."""

    def __init__(self, declaration: Any) -> None:
        name, self.type, self.default_value, self.kwarg_only, letters, is_write = declaration
        self.name = name or ""
        self.alias_info = Alias(letters, is_write) if letters else None
        self.is_out = self.kwarg_only and is_write

    @property
    def real_type(self) -> str:
        """The type."""
        return self.type

    @property
    def is_write(self) -> bool:
        """Whether the operator writes it."""
        return self.alias_info is not None and self.alias_info.is_write

    def __repr__(self) -> str:
        return f"{self.type} {self.name}".rstrip()


class _Parameter(Argument):
    """An argument, which may have a default."""

    def __init__(self, declaration: Any, has_default: bool) -> None:
        super().__init__(declaration)
        self._has_default = has_default

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self._has_default


class FunctionSchema:
    """The signature of an operator."""

    def __init__(self, operator: Any) -> None:
        namespace, base, self.overload_name = operator.parts
        self.name = f"{namespace}::{base}"
        self._text = operator.schema
        # A default of None is one too: the text tells.
        defaults = _defaults(self._text)
        self.arguments = [_Parameter(declared, declared[0] in defaults) for declared in operator.arguments]
        self.returns = [Argument(declared) for declared in operator.returns]

    @property
    def is_mutable(self) -> bool:
        """Whether it writes an argument."""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def _defaults(text: str) -> set[str]:
    """The names of the arguments with a default."""
    import re

    return set(re.findall(r" (\w+)=", text))


class OpOverload:
    """An operator of one signature. There is one object for each, so that `func is flambeau.ops.aten.mm.default` tells which it is."""

    def __init__(self, packet: OpOverloadPacket, operator: Any) -> None:
        self._op = operator
        self._packet = packet
        self._schema = FunctionSchema(operator)
        _, base, overload = operator.parts
        self.namespace = self._schema.name.partition("::")[0]
        self._opname, self._overloadname = base, overload or "default"
        self._name = self._schema.name + (f".{overload}" if overload else "")
        self.__name__ = f"{base}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self.__module__ = f"flambeau.ops.{self.namespace}"
        self.tags: list[Any] = []

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    @property
    def op(self) -> Any:
        """What calls the operator."""
        return self._op

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """All overloads of the name."""
        return self._packet

    @property
    def is_view(self) -> bool:
        """Whether a result shares memory with an argument that is not written."""
        return any(result.alias_info is not None and not result.alias_info.is_write for result in self._schema.returns)

    def name(self) -> str:
        """`aten::add.Tensor`."""
        return self._name

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """NotImplemented: implicit composites are taken apart before classes and modes see them."""
        return NotImplemented

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        """Whether a kernel is registered for exactly this key."""
        return self._op.has_kernel(str(key).rpartition(".")[2])

    def redispatch(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator below autograd."""
        return _flambeau._call_below_autograd(self._op, args, kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.{self._overloadname}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _overload_named, (self._name,)

    def __deepcopy__(self, memo: Any) -> OpOverload:
        return self


class OpOverloadPacket:
    """The overloads of a name, of which a call takes the first that fits."""

    def __init__(self, namespace: str, name: str, overloads: list[str]) -> None:
        self.__name__ = self._opname = name
        self._namespace, self._overloads = namespace, overloads
        self._qualified_op_name = f"{namespace}::{name}"
        self._found: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        return [name or "default" for name in self._overloads]

    def _overload(self, name: str) -> OpOverload | None:
        name = "" if name == "default" else name
        if name not in self._overloads:
            refresh()
        if name not in self._overloads:
            return None
        if name not in self._found:
            operator = _flambeau._find_operator(self._qualified_op_name + (f".{name}" if name else ""))
            if operator is None:
                return None
            self._found[name] = OpOverload(self, operator)
        return self._found[name]

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._overload(name)
        if found is None:
            raise AttributeError(
                f"The underlying op of '{self._namespace}.{self._opname}' has no overload name '{name}'; it has {self.overloads()}"
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        refused = []
        candidates = [overload for overload in map(self._overload, self._overloads) if overload is not None]
        if len(candidates) == 1:
            return candidates[0](*args, **kwargs)
        for overload in candidates:
            try:
                overload._op.bind(args, kwargs)
            except RuntimeError as error:
                refused.append(str(error))
                continue
            return overload(*args, **kwargs)
        raise RuntimeError(f"{self._qualified_op_name}: no overload fits the arguments:\n  " + "\n  ".join(refused))

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self._opname}')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._opname}"


# Other sources in which a name is looked for, in order: functions of a namespace and a name that return what it is, or None.
finders: list[Callable[[str, str], Any]] = []


class Namespace:
    """The operators of a namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._packets: dict[str, OpOverloadPacket] = {}

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def _packet(self, name: str) -> OpOverloadPacket | None:
        found = self._packets.get(name)
        if found is None:
            overloads = _overload_names().get(f"{self._name}::{name}")
            if not overloads:
                return None
            found = self._packets[name] = OpOverloadPacket(self._name, name, overloads)
        return found

    def _packet_anew(self, name: str) -> OpOverloadPacket | None:
        """The same where the names are read anew if it is not known."""
        found = self._packet(name)
        if found is None:
            refresh()
            found = self._packet(name)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found: Any = self._packet(name)
        for find in finders if found is None else ():
            found = find(self._name, name)
            if found is not None:
                break
        if found is None:
            found = self._packet_anew(name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        refresh()
        prefix = f"{self._name}::"
        return sorted(name.removeprefix(prefix) for name in _overload_names() if name.startswith(prefix))

    def __repr__(self) -> str:
        return f"<flambeau.ops.{self._name}>"


_namespaces: dict[str, Namespace] = {}
# The names of overloads by the names of operators; None until they are needed, and after an operator was defined. Libraries in other
# languages define operators too, which Python is not told of: a look-up that fails reads the names anew.
_names: dict[str, list[str]] | None = None


def _overload_names() -> dict[str, list[str]]:
    global _names
    if _names is None:
        found: dict[str, list[str]] = {}
        for full in _flambeau._operator_names():
            space, _, rest = full.rpartition("::")
            base, _, overload = rest.partition(".")
            found.setdefault(f"{space or 'aten'}::{base}", []).append(overload)
        _names = found
    return _names


def refresh() -> None:
    """Has the names of operators be read anew, for those that were defined outside of Python. Overloads that were found stay the objects
    that they are."""
    global _names
    _names = None
    for space in _namespaces.values():
        for packet in space._packets.values():
            packet._overloads = _overload_names().get(packet._qualified_op_name, [])


def forget(name: str) -> None:
    """Has an operator be looked up anew, after it was defined or withdrawn."""
    global _names
    _names = None
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = _namespaces[space]._packets.get(base) if space in _namespaces else None
    if packet is not None:
        packet._found.pop(overload, None)
        packet._overloads = _overload_names().get(f"{space}::{base}", [])
        if not packet._overloads:
            del _namespaces[space]._packets[base]


def namespace(name: str) -> Namespace:
    """The operators of a namespace; the library's own are `aten`, and `flambeau` is another name of it."""
    name = "aten" if name == "flambeau" and not _has_own(name) else name
    if name not in _namespaces:
        _namespaces[name] = Namespace(name)
    return _namespaces[name]


def _has_own(name: str) -> bool:
    return any(full.startswith(f"{name}::") for full in _flambeau._operator_names())


def _overload_named(name: str) -> OpOverload:
    """The overload of a name with its namespace: `aten::add.Tensor`, `mine::cube`."""
    space, _, rest = name.rpartition("::")
    base, _, overload = rest.partition(".")
    packet = namespace(space or "aten")._packet_anew(base)
    found = packet._overload(overload) if packet is not None else None
    if found is None:
        raise AttributeError(f"there is no operator {name}")
    return found


# What the dispatcher calls for an operator that it has not met yet.
_overload_of = _overload_named
