"""How samples become a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def _is_numpy(value: Any) -> bool:
    """An array or a number of NumPy's, which need not be there."""
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _as_tensor(value: Any) -> Any:
    """An array of numbers as a tensor; one of texts or objects is an error that says so."""
    if value.dtype.kind not in "biuf":
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found an array of {value.dtype}"
        )
    dtype = getattr(flambeau, value.dtype.name, None)
    if dtype is None:
        raise TypeError(f"default_collate: there are no tensors of {value.dtype}")
    return flambeau.as_tensor(value, dtype=dtype)


def _mapped(value: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """Parts in a mapping of the same kind, or in a dict where it cannot be made from one."""
    try:
        if hasattr(value, "copy") and hasattr(value, "update"):
            made = value.copy()
            made.update(parts)
            return made
        return type(value)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def _listed(value: Sequence[Any], parts: list[Any]) -> Any:
    """Parts in a sequence of the same kind, or in a list where it cannot be made from one."""
    try:
        return type(value)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def default_convert(data: Any) -> Any:
    """Arrays become tensors, wherever they are; all else stays as it is."""
    if isinstance(data, flambeau.Tensor):
        return data
    if _is_numpy(data):
        return _as_tensor(data) if data.dtype.kind in "biuf" else data
    if isinstance(data, Mapping):
        return _mapped(data, {key: default_convert(value) for key, value in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _listed(data, [default_convert(value) for value in data])
    return data


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Stacks tensors."""
    return flambeau.stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Stacks arrays, and NumPy's numbers."""
    return flambeau.stack([_as_tensor(value) for value in batch])


collate_numpy_scalar_fn = collate_numpy_array_fn


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """A tensor of numbers in double precision."""
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """A tensor of integers."""
    return flambeau.tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The texts themselves."""
    return batch


# How samples of a type become a batch; programs may add types.
default_collate_fn_map: dict[Any, Any] = {
    flambeau.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """Stacks tensors, arrays and numbers along a new first dimension, in tuples, lists and dicts as they are."""
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: dict[Any, Any] | None = None) -> Any:
    """The same by functions of one's own for types of samples."""
    first, known = batch[0], collate_fn_map or {}
    # NumPy's numbers are Python's floats as well, which are converted otherwise.
    function = known.get(type(first)) or (collate_numpy_array_fn if _is_numpy(first) else None)
    function = function or next((known[kind] for kind in known if isinstance(first, kind)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _mapped(first, {key: collate([sample[key] for sample in batch], collate_fn_map=known) for key in first})
    if _is_named_tuple(first):
        return type(first)(*(collate(part, collate_fn_map=known) for part in zip(*batch)))
    if isinstance(first, Sequence):
        return _collate_sequences(first, batch, known)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


def _collate_sequences(first: Sequence[Any], batch: Sequence[Sequence[Any]], known: dict[Any, Any]) -> Any:
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [collate(part, collate_fn_map=known) for part in zip(*batch)]
    return parts if isinstance(first, tuple) else _listed(first, parts)


if TYPE_CHECKING:
    Collate = Callable[[list[Any]], Any]
