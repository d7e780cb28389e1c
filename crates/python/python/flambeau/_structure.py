"""Nested values as named tensors and a text, so that a file of tensors can hold a whole checkpoint."""

from __future__ import annotations

import json
import reprlib
from collections import OrderedDict

import flambeau
from flambeau import Size, Tensor, _sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kinds of containers, each with the class that it is made of; the narrow ones first.
SEQUENCES = (("size", Size), ("list", list), ("tuple", tuple))
MAPPINGS = (("ordered", OrderedDict), ("dict", dict))
# Types of elements by the names that files have for them.
DTYPES = {
    str(dtype).split(".")[-1]: dtype
    for dtype in (
        flambeau.bool,
        flambeau.uint8,
        flambeau.int8,
        flambeau.int16,
        flambeau.int32,
        flambeau.int64,
        flambeau.float16,
        flambeau.bfloat16,
        flambeau.float32,
        flambeau.float64,
        flambeau.complex64,
        flambeau.complex128,
        flambeau.uint16,
        flambeau.uint32,
        flambeau.uint64,
        flambeau.float8_e4m3fn,
        flambeau.float8_e5m2,
        flambeau.float8_e8m0fnu,
        flambeau.complex32,
    )
}


def is_flat(value: Any) -> bool:
    """Whether it is a dict of tensors, which needs no description of its structure."""
    return isinstance(value, dict) and all(_is_strided(x) and isinstance(name, str) for name, x in value.items())


def _is_strided(value: Any) -> bool:
    return isinstance(value, Tensor) and not _sparse.is_layout(value)


class Flattened:
    """The tensors in a value, by names that say where they were, and the rest of it as JSON."""

    def __init__(self, value: Any) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self.text = json.dumps(self._tree(value, ()))

    def _tree(self, value: Any, path: tuple[str, ...]) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Tensor) and _sparse.is_layout(value):
            layout, parts = _sparse.recipe(value)[1][:2]
            return {"sparse": [layout, *(self._tree(part, (*path, str(i))) for i, part in enumerate(parts))]}
        if isinstance(value, Tensor):
            return {"tensor": self._name(value, path)}
        if isinstance(value, flambeau.dtype):
            return {"dtype": next(name for name, dtype in DTYPES.items() if dtype == value)}
        for kind, cls in SEQUENCES:
            if type(value) is cls:
                return {kind: [self._tree(item, (*path, str(i))) for i, item in enumerate(value)]}
        for kind, mapping in MAPPINGS:
            if isinstance(value, mapping):
                items = [[self._tree(key, path), self._tree(item, (*path, str(key)))] for key, item in value.items()]
                return {kind: items}
        where = ".".join(path) or "the value itself"
        raise TypeError(f"expected tensors, numbers, texts, lists and dicts but got {type(value).__name__} at {where}")

    def _name(self, tensor: Tensor, path: tuple[str, ...]) -> str:
        """The name of a tensor, the same for each occurrence."""
        if id(tensor) not in self._names:
            name = path_name = ".".join(path) or "tensor"
            number = 1
            while name in self.tensors:
                number += 1
                name = f"{path_name}#{number}"
            self._names[id(tensor)] = name
            self.tensors[name] = tensor
        return self._names[id(tensor)]


def restored(text: str, tensors: dict[str, Tensor]) -> Any:
    """The value that `Flattened` flattened. Another text is a ValueError that says what is wrong with it."""
    return _value(json.loads(text), tensors)


def _value(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(tree, (dict, list)):
        return tree
    if not isinstance(tree, dict) or len(tree) != 1:
        raise ValueError(f"expected a value or its kind and what it is made of but got {_shown(tree)}")
    ((kind, content),) = tree.items()
    if kind in ("tensor", "dtype"):
        return _named(kind, content, tensors if kind == "tensor" else DTYPES)
    if not isinstance(content, list):
        raise ValueError(f"expected the items of a {kind} but got {_shown(content)}")
    if kind == "size":
        return _size(content)
    if kind == "sparse":
        return _sparse_tensor(content, tensors)
    for name, sequence in SEQUENCES:
        if kind == name:
            return sequence(_value(item, tensors) for item in content)
    for name, mapping in MAPPINGS:
        if kind == name:
            return mapping(_item(item, tensors) for item in content)
    raise ValueError(f"expected a kind of value that is known here but got {_shown(kind)}")


def _sparse_tensor(content: list[Any], tensors: dict[str, Tensor]) -> Tensor:
    """A sparse tensor of its layout and parts, which are checked."""
    layouts = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
    if len(content) != 5 or content[0] not in layouts:
        raise ValueError(f"expected a sparse layout and four parts but got {_shown(content)}")
    parts = [_value(part, tensors) for part in content[1:]]
    fits = isinstance(parts[0], Tensor) and isinstance(parts[1], Tensor)
    if content[0] == "sparse_coo":
        fits = fits and _are_sizes(parts[2]) and isinstance(parts[3], bool)
    else:
        fits = fits and isinstance(parts[2], Tensor) and _are_sizes(parts[3])
    if not fits:
        raise ValueError(f"expected the parts of a tensor of layout {content[0]} but got {_shown(content)}")
    return _sparse.rebuilt(getattr(flambeau, content[0]), parts)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(size) is int for size in value)


def _named(kind: str, name: Any, known: dict[str, Any]) -> Any:
    """Looks a name up in `known` only: names from a file are never looked up in modules."""
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"expected the name of a {kind} but got {_shown(name)}")
    return known[name]


def _size(sizes: list[Any]) -> Size:
    if not all(type(size) is int and 0 <= size < 2**63 for size in sizes):
        raise ValueError(f"expected sizes but got {_shown(sizes)}")
    return Size(sizes)


def _item(item: Any, tensors: dict[str, Tensor]) -> tuple[Any, Any]:
    if not isinstance(item, list) or len(item) != 2:
        raise ValueError(f"expected a key and a value but got {_shown(item)}")
    key, value = _value(item[0], tensors), _value(item[1], tensors)
    try:
        hash(key)
    except TypeError as error:
        raise ValueError(f"expected a key of a dict: {error}") from error
    return key, value


def _shown(value: Any) -> str:
    """The beginning of what was found in a file."""
    return reprlib.repr(value)
