"""compile: the elementwise operators of a function as one loop of machine code."""

from __future__ import annotations

import functools
import types

import flambeau
from flambeau import Tensor, _flambeau
from flambeau.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Values that a plan may depend on: they are a part of its key by their text.
SIMPLE = (int, float, complex, str, bytes, bool, type(None), flambeau.dtype, flambeau.device, type(Ellipsis))
SLOT = object()


class Unknown(Exception):
    """A value of which nobody can say whether it is the same in the next call."""


def text_of(value: Any) -> str:
    """A text that differs where a plan may: of numbers and strings, and of tuples of them."""
    if isinstance(value, SIMPLE):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, (tuple, list)) and len(value) <= 64:
        return f"{type(value).__name__}({','.join(map(text_of, value))})"
    if isinstance(value, dict) and len(value) <= 64:
        return "{" + ",".join(f"{text_of(k)}={text_of(v)}" for k, v in value.items()) + "}"
    raise Unknown(type(value).__name__)


def state_of(function: Any) -> str:
    """A text for what a function reads beside its arguments, as far as its code names it: numbers, modules, and which objects."""
    if isinstance(function, types.MethodType):
        return state_of_value(function.__self__) + state_of(function.__func__)
    if not isinstance(function, types.FunctionType):
        return state_of_value(function)
    code = function.__code__
    parts = [f"{code.co_filename}:{code.co_firstlineno}"]
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        parts.append(f"{name}={state_of_value(_contents(cell))}")
    names = function.__globals__
    for name in code.co_names:
        if name in names:
            parts.append(f"{name}={state_of_value(names[name])}")
    return ";".join(parts)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def state_of_value(value: Any) -> str:
    """A text for one value: its own where it is simple, else which object it is."""
    if isinstance(value, flambeau.nn.Module):
        return state_of_module(value)
    try:
        return text_of(value)
    except Unknown:
        return f"{type(value).__name__}@{id(value)}"


def state_of_module(module: Any) -> str:
    """A text for the numbers of a module and its parts, and for which tensors they have."""
    parts = []
    for name, part in module.named_modules():
        simple = [f"{key}:{value!r}" for key, value in vars(part).items() if isinstance(value, SIMPLE)]
        tensors = [f"{key}@{id(value)}" for table in (part._parameters, part._buffers) for key, value in table.items()]
        parts.append(f"{name}/{type(part).__name__}({','.join(simple + tensors)})")
    return ";".join(parts)


class Compiled:
    """A function whose elementwise operators are fused; made by `flambeau.compile`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._plans = _flambeau._Plans()
        self._returned: dict[int, tuple[list[Any], Any]] = {}
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        return compile, (self._function,)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, Any, list[Tensor], list[Any]]:
        """The state, a function of a tuple of tensors, the tensors, and a list for what the function returned."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        template = [SLOT if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        text = ",".join("*" if leaf is SLOT else text_of(leaf) for leaf in template)
        state = f"{spec}|{text}|{state_of(self._function)}"
        returned: list[Any] = []
        function = self._function

        def of_tensors(given: tuple[Tensor, ...]) -> list[Tensor]:
            rest = iter(given)
            filled = [next(rest) if leaf is SLOT else leaf for leaf in template]
            args, kwargs = pytree.tree_unflatten(filled, spec)
            out, out_spec = pytree.tree_flatten(function(*args, **kwargs))
            for leaf in out:
                if not isinstance(leaf, (Tensor, *SIMPLE)):
                    raise TypeError(f"compile: a result is of type {type(leaf).__name__}")
            if not returned:
                returned.append(([SLOT if isinstance(leaf, Tensor) else leaf for leaf in out], out_spec))
            return [leaf for leaf in out if isinstance(leaf, Tensor)]

        return state, of_tensors, tensors, returned

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            state, function, tensors, returned = self._prepare(args, kwargs)
        except Unknown:
            return self._function(*args, **kwargs)
        planned = self._plans.call(state, function, tensors)
        if planned is None:
            return self._function(*args, **kwargs)
        number, results = planned
        if returned:
            self._returned[number] = returned[0]
        known = self._returned.get(number)
        if known is None:  # another thread is still compiling it
            return self._function(*args, **kwargs)
        rest = iter(results)
        template, spec = known
        return pytree.tree_unflatten([next(rest) if leaf is SLOT else leaf for leaf in template], spec)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What a call with these arguments runs: the loops, the other operators, and why each is not a part of a loop."""
        try:
            state, function, tensors, returned = self._prepare(args, kwargs)
        except Unknown as unknown:
            return f"runs as written: an argument is of type {unknown}\n"
        number, text = self._plans.explain(state, function, tensors)
        if number is not None and returned:
            self._returned[number] = returned[0]
        return text


def compile(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """The function, or the module with its `forward`, compiled when it is called first; a decorator where none is given. `disable=True`
    gives the function itself. Other options of PyTorch's are accepted and have no effect."""
    if function is None:
        return lambda function: compile(function, **options)
    if options.get("disable") or options.get("backend") == "eager" or not hasattr(_flambeau, "_Plans"):
        return function
    if isinstance(function, flambeau.nn.Module):
        function.compile()
        return function
    return function if isinstance(function, Compiled) else Compiled(function)
