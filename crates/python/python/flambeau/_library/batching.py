"""Rules for batches in Python: `register_vmap`, and the static method `vmap` of functions.

A rule is for one level of `vmap`: the highest at which an argument is batched. While it runs, this level and those above are hidden, and it
gets the tensors below.
"""

from __future__ import annotations

from contextlib import contextmanager

from flambeau import Tensor, _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NamedTuple

    class VmapInfo(NamedTuple):
        """What a rule is told of the batch."""

        batch_size: int
        randomness: str

else:
    from collections import namedtuple

    VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))


def level_of(values: Any) -> tuple[int, VmapInfo] | None:
    """The number of the highest level at which one of the values, or an item of a list among them, is batched, and what a rule is told."""
    found = _flambeau._vmap_level_of(list(_flat(values)))
    return None if found is None else (found[0], VmapInfo(*found[1:]))


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


@contextmanager
def hidden(level: int) -> Iterator[None]:
    """Inside, the level and those above it are hidden."""
    _flambeau._vmap_hide(level)
    try:
        yield
    finally:
        _flambeau._vmap_show()


def parts(value: Any, level: int) -> tuple[Any, Any]:
    """What is below the batched tensors of an argument, and the dimensions of the batch; a list has a list of them."""
    if isinstance(value, (list, tuple)):
        pairs = [parts(item, level) for item in value]
        return [item for item, _ in pairs], [dim for _, dim in pairs]
    return _flambeau._vmap_parts(value, level) if isinstance(value, Tensor) else (value, None)


def _is_batched(dims: Any) -> bool:
    """Whether a dimension is given among those of an argument or several."""
    return any(map(_is_batched, dims)) if isinstance(dims, (list, tuple)) else dims is not None


def _refuse_batched(overload: Any, names: Any, dims: Any) -> None:
    """An error for keyword-only arguments that have a batch: a rule is told no dimensions of them."""
    for name, dim in zip(names, dims):
        if _is_batched(dim):
            raise NotImplementedError(
                f"{overload}: expected a keyword-only argument `{name}` without a batch, since the rule that register_vmap set is told the "
                f"dimensions of positional arguments only, but got one with the batch in dimension {dim}"
            )


def wrapped(output: Any, out_dims: Any, level: int) -> Any:
    """The results as batched tensors of a level."""
    if isinstance(output, (tuple, list)):
        return type(output)(wrapped(value, dim, level) for value, dim in zip(output, out_dims))
    return output if out_dims is None or not isinstance(output, Tensor) else _flambeau._vmap_wrap(output, out_dims, level)


def kernel(overload: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an operator that calls `rule(info, in_dims, *args, **kwargs)`, which returns outputs and their batch dimensions."""

    def batched(*args: Any, **kwargs: Any) -> Any:
        found = level_of((*args, *kwargs.values()))
        if found is None:
            # Calls inside the rule have the key too, as long as another level is open.
            return _flambeau._call_excluding("Batched", overload._op, args, kwargs)
        level, info = found
        _refuse_batched(overload, kwargs, [parts(value, level)[1] for value in kwargs.values()])
        pairs = [parts(value, level) for value in args]
        with hidden(level):
            output, out_dims = rule(info, tuple(dim for _, dim in pairs), *(value for value, _ in pairs), **kwargs)
        return wrapped(output, out_dims, level)

    return batched
