"""`Library`: operators that programs define, and kernels for operators."""

from __future__ import annotations

import contextlib

from flambeau import _flambeau, _ops

from . import locations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# The keys of the kernels for types of devices.
KEYS_OF_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "privateuseone": "PrivateUse1"}
# Keys of PyTorch's that are one key here, as `key_named` of the native module reads them.
_ONE_KEY = {
    "Autograd": ("AutogradCPU", "AutogradCUDA", "AutogradMeta", "AutogradPrivateUse1"),
    "Autocast": ("AutocastCPU", "AutocastCUDA"),
    "Sparse": ("SparseCPU", "SparseCUDA"),
    "SparseCompressed": ("SparseCsrCPU", "SparseCsrCUDA"),
    "Quantized": ("QuantizedCPU", "QuantizedCUDA"),
    "Batched": ("FuncTorchBatched",),
}
_KEYS_BY_SPELLING = {spelling: key for key, spellings in _ONE_KEY.items() for spelling in spellings} | KEYS_OF_DEVICES
_KINDS = ("DEF", "IMPL", "FRAGMENT")
# The operators that were defined, with their libraries, and the locations of libraries of the kind "DEF".
defined: dict[str, Library] = {}
with_formula: set[str] = set()
_definitions: dict[str, str] = {}


def key_of_device(device_type: str) -> str:
    """The dispatch key of a type of devices."""
    key = KEYS_OF_DEVICES.get(device_type)
    if key is not None:
        return key
    try:
        kind = _flambeau.device(device_type).type
    except RuntimeError:
        kind = ""
    if not kind:
        raise ValueError(f"expected a type of devices, such as 'cpu' or 'cuda', but got {device_type!r}")
    raise NotImplementedError(f"kernels for devices of type {device_type!r} cannot be registered from Python by their name; use a dispatch key")


def overload_of(op: Any) -> Any:
    """The overload that is meant by itself, by its name with a namespace, or by a custom operator."""
    if isinstance(op, _ops.OpOverload):
        return op
    own = getattr(op, "_opoverload", None)
    if own is not None:
        return own
    if not isinstance(op, str):
        raise ValueError(f"expected the name of an operator, an OpOverload or a custom operator but got {type(op).__name__}")
    if "::" not in op:
        raise ValueError(f"expected a name with a namespace, such as 'mylib::cube', but got {op!r}")
    try:
        return _ops._overload_named(op.removesuffix(".default"))
    except AttributeError:
        raise RuntimeError(f"Could not find the operator {op}. Please make sure you have already registered the operator") from None


def is_function(op: Any) -> bool:
    """Whether a function of this library stands for an operator of a package: it has kernels for all devices and its derivative already."""
    if getattr(type(op), "stands_for_operator", False):
        return True
    if not isinstance(op, str) or "::" not in op:
        return False
    try:
        overload_of(op)
    except RuntimeError:
        namespace, name = op.removesuffix(".default").split("::", 1)
        return any(find(namespace, name) is not None for find in _ops.finders)
    return False


class Library:
    """Operators of a namespace and kernels, which stay in force until the library is destroyed.

    `kind` is "DEF" for the one library that defines the operators of a namespace, "FRAGMENT" for one of several, and "IMPL" for
    kernels of operators that exist.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("aten", "prim", "prims") and kind == "DEF":
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs: list[str] = []
        self._kernels: list[tuple[str, str, Any]] = []
        if kind == "DEF":
            here = locations.here()
            if ns in _definitions:
                raise RuntimeError(
                    f"Only a single library of kind DEF can define the operators of the namespace {ns}; use the kind FRAGMENT for several. "
                    f"Previous registration was at {_definitions[ns]}; latest registration is at {here}"
                )
            _definitions[ns] = here

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Defines an operator, `cube(Tensor x) -> Tensor`, and returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError(f"{schema}: a library of kind IMPL defines no operators")
        head = schema.partition("(")[0].strip()
        if "::" in head and head.partition("::")[0] != self.ns:
            raise RuntimeError(f"{schema}: expected a name of the namespace {self.ns}")
        name = head.rpartition("::")[2]
        qualified = f"{self.ns}::{name}"
        if qualified in defined:
            locations.register(qualified, "its definition")
        if _flambeau._find_operator(qualified) is not None:
            raise RuntimeError(f"{qualified}: the library has an operator of that name already; it cannot be defined again at {locations.here()}")
        _flambeau._define_operator(schema if "::" in head else f"{self.ns}::{schema.strip()}")
        locations.register(qualified, "its definition", allow_override=True)
        defined[qualified] = self
        self._op_defs.append(qualified)
        _ops.forget(qualified)
        overload = _ops._overload_named(qualified)
        overload.tags = list(tags) if isinstance(tags, (tuple, list)) else [tags]
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False) -> None:
        """Makes a function the kernel of an operator for a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("Library.impl: kernels in Python get no set of dispatch keys")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        key = _KEYS_BY_SPELLING.get(key, key)
        if isinstance(op_name, _ops.OpOverload):
            overload = op_name
        elif is_function(f"{self.ns}::{op_name}" if isinstance(op_name, str) and "::" not in op_name else op_name):
            return
        elif isinstance(op_name, str):
            overload = overload_of(op_name if "::" in op_name else f"{self.ns}::{op_name}")
        else:
            raise RuntimeError("impl should be passed either a name or an OpOverload object as the first argument")
        if overload.namespace != self.ns:
            raise RuntimeError(f"{overload}: expected an operator of the library's namespace, {self.ns}")
        name = overload.name()
        # An error for a key that there is not, before anything is noted of it.
        has_kernel = overload._op.has_kernel(key)
        if name not in defined and has_kernel and not allow_override:
            raise RuntimeError(f"{name}: the library has a kernel for {key}; `allow_override=True` replaces it while the library exists")
        locations.register(name, f"a kernel for {key}", allow_override)
        self._kernels.append((name, f"a kernel for {key}", overload._op.register(key, fn)))
        if name in defined and key in (*KEYS_OF_DEVICES.values(), "CompositeExplicitAutograd"):
            if not overload._op.has_kernel("CompositeImplicitAutograd"):
                overload._op.add_autograd()

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Refused: a mode sees all operators."""
        raise NotImplementedError("Library.fallback: not implemented; a TorchDispatchMode sees all operators")

    def _destroy(self) -> None:
        for name, what, kernel in self._kernels:
            kernel.withdraw()
            locations.forget(name, what)
        for name in self._op_defs:
            with_formula.discard(name)
            if defined.pop(name, None) is not None:
                _flambeau._undefine_operator(name)
                _ops.forget(name)
                locations.forget(name)
        self._kernels, self._op_defs = [], []
        if self.kind == "DEF":
            _definitions.pop(self.ns, None)


@contextlib.contextmanager
def scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library that is destroyed at the end of the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()
