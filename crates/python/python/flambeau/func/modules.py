"""Modules as functions of their parameters."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .._flambeau import Tensor
    from ..nn import Module

    Named = dict[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Named | Sequence[Named],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls the module with other tensors instead of its parameters and buffers, by name, and restores these afterwards.

    With `tie_weights` a tensor that the module has under several names is replaced under all; with `strict` all must be named.
    """
    given = parameter_and_buffer_dicts
    named = dict(given) if isinstance(given, dict) else {name: x for part in given for name, x in part.items()}
    members_of = _members_by_name(module)
    unknown = [name for name in named if name not in members_of]
    missing = [name for name in members_of if name not in named]
    if unknown or (strict and missing and not tie_weights):
        raise KeyError(f"functional_call: unknown names {unknown}, missing names {missing}")
    if tie_weights:
        named.update(_tied(members_of, named))
        missing = [name for name in members_of if name not in named]
    if strict and missing:
        raise RuntimeError(f"functional_call: missing names {missing}")
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    before = {name: members_of[name][0][members_of[name][1]] for name in named}
    try:
        for name, tensor in named.items():
            members, key = members_of[name]
            members[key] = tensor
        return module(*arguments, **(kwargs or {}))
    finally:
        for name, tensor in before.items():
            members, key = members_of[name]
            members[key] = tensor


def _members_by_name(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """For each name of a parameter or buffer the dict it is in, and its name there."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for members in (part._parameters, part._buffers):
            for key, tensor in members.items():
                if tensor is not None:
                    found[f"{prefix}.{key}" if prefix else key] = (members, key)
    return found


def _tied(members_of: dict[str, tuple[dict[str, Any], str]], named: Named) -> Named:
    """What the other names of replaced tensors are replaced by."""
    by_tensor = {id(members_of[name][0][members_of[name][1]]): tensor for name, tensor in named.items()}
    tensors = {name: members[key] for name, (members, key) in members_of.items()}
    return {name: by_tensor[id(x)] for name, x in tensors.items() if name not in named and id(x) in by_tensor}
