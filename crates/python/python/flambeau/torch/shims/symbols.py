"""Symbolic numbers. Programs run as they are, so that every size is a number: these are for `isinstance` and annotations."""

from __future__ import annotations

import builtins
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"]


class SymInt:
    """A symbolic integer; there are none."""


class SymFloat:
    """A symbolic number; there are none."""


class SymBool:
    """A symbolic truth value; there are none."""


def sym_int(a: Any) -> int:
    """The number without its fraction."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """The number in floating point."""
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger one."""
    return builtins.max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one."""
    return builtins.min(a, b)


def sym_not(a: Any) -> bool:
    """The negation."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t` if `b` holds, else `f`."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The root."""
    return math.sqrt(a)


def sym_sum(args: Any) -> Any:
    """The sum."""
    return builtins.sum(args)
