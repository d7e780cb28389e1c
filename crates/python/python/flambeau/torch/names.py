"""The names of PyTorch's modules, from `names.txt`, which is read when the first name is not found otherwise.

The file has a section for each module, and in it lines of classes (`c`), functions (`f`) and values (`v`). Names with an
underscore are those that other packages are known to use.
"""

from __future__ import annotations

import os

KINDS = {"c": "class", "f": "function", "v": "value"}

_names: dict[str, dict[str, str]] | None = None


def _read() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    own: dict[str, str] = {}
    with open(os.path.join(os.path.dirname(__file__), "names.txt"), encoding="ascii") as file:
        for line in file:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "m":
                own = found.setdefault(rest, {})
            elif kind in KINDS:
                own.update(dict.fromkeys(rest.split(), KINDS[kind]))
    return found


def of(module: str) -> dict[str, str]:
    """The names in a module and what they are."""
    global _names
    if _names is None:
        _names = _read()
    return _names.get(module, {})


def modules() -> list[str]:
    """All modules."""
    of("torch")
    return list(_names or ())


def is_module(path: str) -> bool:
    """Whether PyTorch has a module of that path."""
    of("torch")
    return path in (_names or ())


def kind_of(module: str, name: str) -> str | None:
    """"class", "function" or "value"; None where PyTorch has nothing."""
    return of(module).get(name)
