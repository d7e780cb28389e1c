"""Functions on lists of tensors, `torch._foreach_add` and its like: loops over the functions on tensors."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

PREFIX = "_foreach_"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _zipped(args: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """Arguments for each tensor: items of lists, and what is no list, or one tensor, for all."""
    columns = [arg if _is_list(arg) else (arg,) * count for arg in args]
    for column in columns:
        if len(column) != count:
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(column)}")
    return list(zip(*columns))


def _norm(tensors: Sequence[Tensor], ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple(flambeau.linalg.vector_norm(x, ord, dtype=dtype) for x in tensors)


def _copy(tensors: Sequence[Tensor], sources: Sequence[Tensor], non_blocking: bool = False) -> None:
    for x, source in zip(tensors, sources, strict=True):
        x.copy_(source, non_blocking)


def _zero(tensors: Sequence[Tensor]) -> None:
    for x in tensors:
        x.zero_()


def _max(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(x.max() for x in tensors)


def _three(name: str) -> Callable[..., Any]:
    """`addcmul` and `addcdiv`, whose factors may be a list of numbers or a tensor with one for each."""

    def call(tensors: Sequence[Tensor], first: Any, second: Any, scalars: Any = 1, *, value: Any = None) -> Any:
        factors = scalars if value is None else value
        factors = factors.tolist() if isinstance(factors, Tensor) else factors
        rows = _zipped((list(tensors), first, second, factors), len(tensors))
        made = [getattr(x, name)(a, b, value=factor) for x, a, b, factor in rows]
        return None if name.endswith("_") else tuple(made)

    return call


SPECIAL = {"norm": _norm, "copy_": _copy, "zero_": _zero, "max": _max}


def function(full_name: str) -> Callable[..., Any]:
    """The function of that name; AttributeError where there is none on tensors."""
    name = full_name.removeprefix(PREFIX)
    if name in SPECIAL:
        return SPECIAL[name]  # type: ignore[return-value]
    if name.rstrip("_") in ("addcmul", "addcdiv"):
        return _three(name)
    method = getattr(Tensor, {"maximum_": "clamp_min_", "minimum_": "clamp_max_"}.get(name, name), None)
    if method is None:
        raise AttributeError(f"module 'torch' has no attribute '{full_name}'")
    if name in ("maximum", "minimum"):
        # These take numbers as well.
        method = getattr(Tensor, {"maximum": "clamp_min", "minimum": "clamp_max"}[name])

    def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "pow" and not _is_list(tensors):
            return tuple(flambeau.pow(tensors, x) for x in args[0])
        rows = _zipped((list(tensors), *args), len(tensors))
        made = [method(*row, **kwargs) for row in rows]
        return None if name.endswith("_") else tuple(made)

    call.__name__ = full_name
    return call
