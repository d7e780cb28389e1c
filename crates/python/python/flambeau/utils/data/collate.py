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


def default_collate(batch: Sequence[Any]) -> Any:
    """Stacks tensors, arrays and numbers along a new first dimension, in tuples, lists and dicts as they are."""
    first = batch[0]
    if isinstance(first, flambeau.Tensor):
        return flambeau.stack(list(batch))
    if _is_numpy(first):
        return flambeau.stack([_as_tensor(value) for value in batch])
    if isinstance(first, float):
        return flambeau.tensor(batch, dtype=flambeau.float64)
    if isinstance(first, int):
        return flambeau.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _mapped(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if _is_named_tuple(first):
        return type(first)(*(default_collate(part) for part in zip(*batch)))
    if isinstance(first, Sequence):
        return _collate_sequences(first, batch)
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


def _collate_sequences(first: Sequence[Any], batch: Sequence[Sequence[Any]]) -> Any:
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [default_collate(part) for part in zip(*batch)]
    return parts if isinstance(first, tuple) else _listed(first, parts)


if TYPE_CHECKING:
    Collate = Callable[[list[Any]], Any]
