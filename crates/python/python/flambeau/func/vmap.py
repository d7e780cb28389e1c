"""`vmap`: a function of one example as a function of a batch."""

from __future__ import annotations

import functools

from .. import _flambeau
from ..autograd._jacobians import level
from ..utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .calls import Function

Tensor = _flambeau.Tensor

RANDOMNESS = ("error", "different", "same")


def vmap(func: Function, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Function:
    """A function that applies `func` to every slice of its arguments along `in_dims`, and stacks the results along `out_dims`.

    `func` runs once. Its arguments are batched tensors, which have the sizes of one slice, and every operator computes all slices at
    once. Random operators are an error, or with the randomness "different" draw for each slice, or with "same" once for all. With a
    `chunk_size`, `func` runs once for so many slices.
    """
    check_randomness(randomness)
    _check_chunk_size(chunk_size)

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        values, dims, spec, size = _batched(func, args, in_dims)
        if chunk_size is None or chunk_size >= size:
            flat, out_spec = _run(func, values, dims, spec, kwargs, size, randomness, out_dims)
            return pytree.tree_unflatten(flat, out_spec)
        return _in_chunks(func, values, dims, spec, kwargs, size, randomness, out_dims, chunk_size)

    return mapped


def check_randomness(randomness: str) -> None:
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def _check_chunk_size(chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


def _run(
    func: Function, values: list[Any], dims: list[int | None], spec: Any, kwargs: dict[str, Any], size: int, randomness: str, out_dims: Any
) -> tuple[list[Any], Any]:
    """The outputs of the function for all slices, flattened."""
    with level(size, randomness):
        given = [value if dim is None else _flambeau._vmap_wrap(value, dim) for value, dim in zip(values, dims, strict=True)]
        outputs = func(*pytree.tree_unflatten(given, spec), **kwargs)
        flat, out_spec = pytree.tree_flatten(outputs)
        return [_unwrapped(func, x, dim) for x, dim in zip(flat, _flat_out_dims(func, outputs, out_dims), strict=True)], out_spec


def _in_chunks(
    func: Function,
    values: list[Any],
    dims: list[int | None],
    spec: Any,
    kwargs: dict[str, Any],
    size: int,
    randomness: str,
    out_dims: Any,
    chunk_size: int,
) -> Any:
    state = _rng_state() if randomness == "same" else None
    chunks = []
    out_spec: Any = None
    chosen: list[Any] = []
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        if state is not None:
            _set_rng_state(state)
        part = [x if dim is None else x.narrow(dim, start, count) for x, dim in zip(values, dims, strict=True)]
        flat, out_spec = _run(func, part, dims, spec, kwargs, count, randomness, out_dims)
        chunks.append(flat)
        chosen = _flat_out_dims(func, pytree.tree_unflatten(flat, out_spec), out_dims)
    joined = [
        columns[0] if dim is None else _flambeau.cat(list(columns), dim) for columns, dim in zip(zip(*chunks, strict=True), chosen, strict=True)
    ]
    return pytree.tree_unflatten(joined, out_spec)


def _rng_state() -> Any:
    import flambeau

    return flambeau.get_rng_state()


def _set_rng_state(state: Any) -> None:
    import flambeau

    flambeau.set_rng_state(state)


def _name(func: Function) -> str:
    return getattr(func, "__name__", repr(func))


def _batched(func: Function, args: Any, in_dims: Any) -> tuple[list[Any], list[int | None], Any, int]:
    """The arguments as a list, the dimension of each, how to put them together again, and the size of the batch."""
    head = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{head}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with "
            "no inputs. The latter is unsupported."
        )
    values, spec = pytree.tree_flatten(args)
    dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{head}: in_dims is not compatible with the structure of `inputs`. in_dims has structure {pytree.tree_flatten(in_dims)[1]} but "
            f"inputs has structure {spec}."
        )
    for number, (value, dim) in enumerate(zip(values, dims, strict=True)):
        dims[number] = _in_dim(head, value, dim)
    sizes = [value.shape[dim] for value, dim in zip(values, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension")
    return values, dims, spec, sizes[0]


def _in_dim(head: str, value: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(f"{head}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{head}: Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over non-Tensor arguments, please "
            "use None as the respective in_dim"
        )
    if not -value.dim() <= dim < value.dim():
        raise ValueError(
            f"{head}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.dim()} so expected in_dim to "
            f"satisfy -{value.dim()} <= in_dim < {value.dim()}."
        )
    return dim % value.dim()


def _flat_out_dims(func: Function, outputs: Any, out_dims: Any) -> list[Any]:
    """The dimension of each output."""
    flat, spec = pytree.tree_flatten(outputs)
    head = f"vmap({_name(func)}, ..., out_dims={out_dims})"
    if isinstance(outputs, Tensor):
        if isinstance(out_dims, int) or out_dims is None:
            return [out_dims]
        if isinstance(out_dims, tuple) and len(out_dims) == 1:
            return [out_dims[0]]
    dims = pytree._broadcast_to_and_flatten(out_dims, spec)
    if dims is None:
        raise ValueError(
            f"{head}(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has structure "
            f"{pytree.tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    if not all(isinstance(dim, int) or dim is None for dim in dims):
        raise ValueError(
            f"{head}: `out_dims` must be an int, None or a python collection of ints representing where in the outputs the vmapped dimension "
            "should appear."
        )
    return list(dims)


def _unwrapped(func: Function, output: Any, dim: int | None) -> Any:
    name = _name(func)
    if not isinstance(output, Tensor):
        if dim is None:
            return output
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}. Did you mean to set out_dims= to None for output?"
        )
    if dim is None and _flambeau._vmap_parts(output)[1] is not None:
        raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
    return _flambeau._vmap_unwrap(output, dim)
