"""compile: the elementwise operators of a function as one loop of machine code."""

from __future__ import annotations

import functools
import types

import flambeau
from flambeau import Tensor, _flambeau
from flambeau._compile_state import SIMPLE, Unknown, state_of, text_of
from flambeau.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SLOT = object()
# How many states of what a function reads are compiled for.
STATES = 64


class Compiled:
    """A function whose elementwise operators are fused; made by `flambeau.compile`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._plans = _flambeau._Plans()
        self._returned: dict[int, tuple[list[Any], Any]] = {}
        self._kept: dict[str, list[Any]] = {}
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
        reads, kept = state_of(self._function)
        if reads not in self._kept and len(self._kept) >= STATES:
            raise Unknown(f"more than {STATES} different states of the program")
        self._kept.setdefault(reads, kept)
        state = f"{spec}|{text}|{reads}"
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
            return f"runs as written: it reads {unknown}\n"
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
