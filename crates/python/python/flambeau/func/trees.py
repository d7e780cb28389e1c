"""Tensors in nested tuples, lists and dicts: flattened in order, and the structure rebuilt with others."""

from __future__ import annotations

from .. import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Build = Callable[[Iterable["Tensor"]], Any]


__all__ = ["flatten"]

Tensor = _flambeau.Tensor


def flatten(value: Any, what: str) -> tuple[list[Tensor], Build]:
    """The tensors in a value, and a function that makes a like value of others; `what` names it in errors."""
    leaves: list[Tensor] = []
    make = _visit(value, leaves, what)
    return leaves, lambda others: make(iter(others))


def _visit(value: Any, leaves: list[Tensor], what: str) -> Callable[[Iterator[Tensor]], Any]:
    if isinstance(value, Tensor):
        leaves.append(value)
        return next
    if value is None:
        return lambda others: None
    if isinstance(value, dict):
        cls, parts = type(value), [(key, _visit(item, leaves, what)) for key, item in value.items()]
        return lambda others: cls((key, make(others)) for key, make in parts)
    if isinstance(value, (tuple, list)):
        items = [_visit(item, leaves, what) for item in value]
        if hasattr(value, "_fields"):
            kind: Any = type(value)
            return lambda others: kind(*(make(others) for make in items))
        sequence: Any = list if isinstance(value, list) else tuple
        return lambda others: sequence(make(others) for make in items)
    raise TypeError(f"expected Tensors, in tuples, lists or dicts, as {what} but got {type(value).__name__}")
