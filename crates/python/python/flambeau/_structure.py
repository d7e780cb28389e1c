"""Nested values as named tensors and a text: what lets a file of tensors hold a whole checkpoint."""

from __future__ import annotations

import json
from collections import OrderedDict

import flambeau
from flambeau import Size, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Kinds of containers, each with the class that it is made of; the narrow ones first.
SEQUENCES = (("size", Size), ("list", list), ("tuple", tuple))
MAPPINGS = (("ordered", OrderedDict), ("dict", dict))


def is_flat(value: Any) -> bool:
    """Whether it is what a file of tensors holds without more ado: tensors by name."""
    return isinstance(value, dict) and all(isinstance(x, Tensor) and isinstance(name, str) for name, x in value.items())


class Flattened:
    """The tensors in a value, by names that say where they were, and the rest of it as JSON."""

    def __init__(self, value: Any) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}
        self.text = json.dumps(self._tree(value, ()))

    def _tree(self, value: Any, path: tuple[str, ...]) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, Tensor):
            return {"tensor": self._name(value, path)}
        if isinstance(value, flambeau.dtype):
            return {"dtype": str(value).split(".")[-1]}
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
        """The name of a tensor, which it keeps if it comes again."""
        if id(tensor) not in self._names:
            name = wanted = ".".join(path) or "tensor"
            number = 1
            while name in self.tensors:
                number += 1
                name = f"{wanted}#{number}"
            self._names[id(tensor)] = name
            self.tensors[name] = tensor
        return self._names[id(tensor)]


def restored(text: str, tensors: dict[str, Tensor]) -> Any:
    """The value that `Flattened` took apart."""
    return _value(json.loads(text), tensors)


def _value(tree: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dtype":
        return getattr(flambeau, content)
    for name, sequence in SEQUENCES:
        if kind == name:
            return sequence(_value(item, tensors) for item in content)
    for name, mapping in MAPPINGS:
        if kind == name:
            return mapping((_value(key, tensors), _value(item, tensors)) for key, item in content)
    raise ValueError(f"expected a kind of value that is known here but got {kind!r}")
