"""`vmap`: a function of one example as a function of a batch."""

from __future__ import annotations

import functools

import flambeau
from flambeau import Tensor
from flambeau.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .calls import Function

RANDOMNESS = ("error", "different", "same")


def vmap(func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Function:
    """A function that applies `func` to every slice of its arguments along `in_dims`, and stacks the results along `out_dims`.

    The function runs once for each slice, one after the other, so that it may do whatever Python can; it is not vectorised, and
    `chunk_size` changes nothing. With the randomness "same" each run starts with the same state of the generator.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        values, dims, spec, count = _batched(func, args, in_dims)
        state = flambeau.get_rng_state() if randomness == "same" else None
        outputs = []
        for index in range(count):
            if state is not None:
                flambeau.set_rng_state(state)
            row = [value if dim is None else value.select(dim, index) for value, dim in zip(values, dims)]
            outputs.append(func(*pytree.tree_unflatten(row, spec), **kwargs))
        return _joined(func, outputs, out_dims)

    return mapped


def _name(func: Function) -> str:
    return getattr(func, "__name__", repr(func))


def _batched(func: Function, args: Any, in_dims: Any) -> tuple[list[Any], list[Any], Any, int]:
    """The arguments as a list, the dimension of each, how to put them together again, and the size of the batch."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple")
    if not args:
        raise ValueError(f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with no inputs.")
    values, spec = pytree.tree_flatten(args)
    dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`")
    sizes = set()
    for number, (value, dim) in enumerate(zip(values, dims)):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(f"vmap({_name(func)}): Got in_dim={dim} for an input but the input is of type {type(value)}; expected a Tensor")
        if not -value.dim() <= dim < value.dim():
            raise ValueError(f"vmap({_name(func)}): Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.dim()}")
        dims[number] = dim % value.dim()
        sizes.add(value.shape[dim])
    if not sizes:
        raise ValueError("vmap: expected at least one Tensor to vmap over")
    if len(sizes) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)} for the mapped dimension")
    if 0 in sizes:
        raise ValueError("vmap: the mapped dimension has no elements, so that the results of the function are not known")
    return values, dims, spec, sizes.pop()


def _joined(func: Function, outputs: list[Any], out_dims: Any) -> Any:
    """The outputs of all runs, stacked."""
    flat, spec = pytree.tree_flatten(outputs[0])
    rows = [flat, *(pytree.tree_flatten(output)[0] for output in outputs[1:])]
    dims = [out_dims] if len(flat) == 1 and isinstance(out_dims, int) else pytree._broadcast_to_and_flatten(out_dims, spec)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = [out_dims[0]] * len(flat)
    if dims is None:
        raise ValueError(f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`")
    made = []
    for number, dim in enumerate(dims):
        column = [row[number] for row in rows]
        if dim is None:
            made.append(column[0])
            continue
        if not isinstance(column[0], Tensor):
            raise ValueError(f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(column[0])}")
        made.append(flambeau.stack(column, dim))
    return pytree.tree_unflatten(made, spec)
