"""Modules as functions of their states: several states as one, batch norms without statistics, linear approximations."""

from __future__ import annotations

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau.nn import Module

    from .calls import Function


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one class, each stacked."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    states = [dict(model.named_parameters()) for model in models]
    params = {name: _leaf([state[name] for state in states]) for name in states[0]}
    held = [dict(model.named_buffers()) for model in models]
    buffers = {name: flambeau.stack([state[name] for state in held]).detach() for name in held[0]}
    return params, buffers


def _leaf(tensors: list[Tensor]) -> Tensor:
    required = {tensor.requires_grad for tensor in tensors}
    if len(required) > 1:
        raise RuntimeError("Expected parameters from each model to have the same .requires_grad")
    return flambeau.stack(tensors).detach().requires_grad_(required.pop())


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Lets every batch norm normalise by its batch alone, without statistics that a call would change."""
    for module in root.modules():
        if isinstance(module, flambeau.nn.modules.normalization._BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root


def functionalize(func: Function, *, remove: str = "mutations") -> Function:
    """The function itself, whose results are the same whether it writes in place or not."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for remove. Valid options are: remove='mutations' and "
            "remove='mutations_and_views'"
        )
    return func


def linearize(func: Function, *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The outputs of a function, and its derivative there as a function of tangents."""
    from .forward import jvp

    def derivative(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return func(*primals), derivative


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor of all examples that a batched tensor holds: below all its levels, or without `recurse` below the innermost."""
    found = flambeau._flambeau._vmap_level_of([tensor])
    while found is not None:
        tensor = flambeau._flambeau._vmap_parts(tensor, found[0])[0]
        found = flambeau._flambeau._vmap_level_of([tensor]) if recurse else None
    return tensor


def _axes(side: str) -> list[list[str]]:
    """The groups of names of one side of a pattern."""
    groups: list[list[str]] = []
    inner: list[str] | None = None
    for token in side.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            if inner is not None:
                raise ValueError("rearrange: brackets cannot be nested")
            inner = []
        elif token == ")":
            if inner is None:
                raise ValueError("rearrange: brackets are not balanced")
            groups.append(inner)
            inner = None
        elif inner is None:
            groups.append([token] if token != "1" else [])
        else:
            inner.append(token)
    if inner is not None:
        raise ValueError("rearrange: brackets are not balanced")
    return groups


def _sizes_of(groups: list[list[str]], shape: Sequence[int], known: dict[str, int]) -> dict[str, int]:
    """The size of each name on the left."""
    sizes = dict(known)
    for group, size in zip(groups, shape):
        product, unknown = 1, [name for name in group if name not in sizes]
        for name in group:
            product *= sizes.get(name, 1)
        if len(unknown) > 1:
            raise ValueError(f"rearrange: the sizes of {unknown} are not known")
        if unknown:
            if product == 0 or size % product:
                raise ValueError(f"rearrange: a dimension of size {size} cannot be divided into {group} with {known}")
            sizes[unknown[0]] = size // product
        elif product != size:
            raise ValueError(f"rearrange: a dimension has the size {size}, but {group} has {product}")
    return sizes


def rearrange(tensor: Tensor, pattern: str, **axes_lengths: int) -> Tensor:
    """Splits, transposes and joins dimensions as a pattern says: `rearrange(x, "b c (h a) -> b (a c) h", a=2)`."""
    left, _, right = pattern.partition("->")
    given, requested = _axes(left), _axes(right)
    if ["..."] in given:
        at, extra = given.index(["..."]), tensor.dim() - len(given) + 1
        names = [[f"...{number}"] for number in range(extra)]
        given[at : at + 1] = names
        requested = [[part for name in group for part in (sum(names, []) if name == "..." else [name])] for group in requested]
        requested = [part for group, old in zip(requested, _axes(right)) for part in (names if old == ["..."] else [group])]
    if len(given) != tensor.dim():
        raise ValueError(f"rearrange: the pattern has {len(given)} dimensions, the tensor {tensor.dim()}")
    before = [name for group in given for name in group]
    after = [name for group in requested for name in group]
    if sorted(before) != sorted(after) or len(set(before)) != len(before):
        raise ValueError(f"rearrange: both sides of '{pattern}' must have the same names, each once")
    sizes = _sizes_of(given, tensor.shape, axes_lengths)
    split = tensor.reshape([sizes[name] for name in before])
    moved = split.permute([before.index(name) for name in after])
    shape = []
    for group in requested:
        size = 1
        for name in group:
            size *= sizes[name]
        shape.append(size)
    return moved.reshape(shape)
