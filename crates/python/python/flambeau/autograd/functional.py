"""Products with Jacobians and Hessians, and these as a whole, of functions of one tensor or a tuple of them.

`jvp`, `hvp` and what is computed with strategy="forward-mode" run the function with tangents; the others run backward passes. With
`vectorize` one pass computes all rows, and one run all columns, by `vmap`; without it each row and column has its own.
"""

from __future__ import annotations

from .. import _flambeau
from .._modes import enable_grad
from . import forward_ad
from ._jacobians import columns_of, rows_of, stacked, unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Tensors = tuple["Tensor", ...]


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensor = _flambeau.Tensor


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs of `func` at `inputs`, and their tangents along `v`: forward mode."""
    given, _ = _tuple(inputs, "inputs")
    along = _vector(v, given, "v", "the user-provided inputs")
    with enable_grad(), forward_ad.dual_level():
        primals = given if create_graph else tuple(x.detach() for x in given)
        duals = tuple(forward_ad.make_dual(x, t) for x, t in zip(primals, along, strict=True))
        outputs, single = _tuple(func(*duals), "outputs of the user-provided function")
        pairs = [forward_ad.unpack_dual(output) for output in outputs]
        if strict and any(tangent is None for _, tangent in pairs):
            raise RuntimeError("The outputs do not depend on the inputs, which is not allowed in strict mode.")
        values = tuple(primal for primal, _ in pairs)
        slopes = tuple(_flambeau.zeros_like(primal) if slope is None else slope for primal, slope in pairs)
        if not create_graph:
            values, slopes = _detached(values), _detached(slopes)
    return _as_given(values, single), _as_given(slopes, single)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs of `func` at `inputs`, and the gradients of the inputs for the gradients `v` of the outputs."""
    given, single_input = _tuple(inputs, "inputs")
    with enable_grad():
        variables = _variables(given, create_graph)
        outputs, single = _tuple(func(*variables), "outputs of the user-provided function")
        weights = _vector(v, outputs, "v", "the output of the user-provided function")
        grads = _gradients(outputs, variables, weights, create_graph, strict)
        if not create_graph:
            outputs = _detached(outputs)
    return _as_given(outputs, single), _as_given(grads, single_input)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of each output by each input, of the sizes of both, one after the other."""
    given, single_input = _tuple(inputs, "inputs")
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set "
            "`strict=False` or `vectorize=False`."
        )
    if strategy == "forward-mode":
        rows, single = _by_columns(func, given, create_graph, vectorize)
    elif strategy == "reverse-mode":
        rows, single = _by_rows(func, given, create_graph, strict, vectorize)
    else:
        raise ValueError(f'expected strategy to be "reverse-mode" or "forward-mode" but got {strategy!r}')
    return _as_given(tuple(_as_given(row, single_input) for row in rows), single)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function that gives one number, for each two inputs a tensor of the sizes of both."""
    _, single = _tuple(inputs, "inputs")

    def gradient(*variables: Tensor) -> Tensors:
        outputs = _one_number(func(*variables))
        return _gradients(outputs, variables, (_flambeau.ones_like(outputs[0]),), True, strict)

    def recorded(*variables: Tensor) -> Tensors:
        inner = tuple(x if x.requires_grad else _variable(x, False) for x in variables)
        return gradient(*inner)

    found = jacobian(recorded, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found[0] if single else found


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function that gives one number, and `v` times its Hessian: two backward passes."""
    given, single = _tuple(inputs, "inputs")
    with enable_grad():
        weights = _vector(v, given, "v", "the user-provided inputs")
        variables = _variables(given, create_graph)
        outputs = _one_number(func(*variables))
        first = _gradients(outputs, variables, (_flambeau.ones_like(outputs[0]),), True, strict)
        second = _gradients(first, variables, weights, create_graph, strict)
        if not create_graph:
            outputs = _detached(outputs)
    return outputs[0], _as_given(second, single)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function that gives one number, and its Hessian times `v`: forward mode through a backward pass."""
    _, single = _tuple(inputs, "inputs")

    def value_and_gradient(*duals: Tensor) -> Tensors:
        variables = tuple(x if x.requires_grad else _variable(x, False) for x in duals)
        outputs = _one_number(func(*variables))
        return (*outputs, *_gradients(outputs, variables, (_flambeau.ones_like(outputs[0]),), create_graph, strict))

    (value, *_), (_, *products) = jvp(value_and_gradient, inputs, v, create_graph, strict)
    return value, _as_given(tuple(products), single)


def _tuple(value: Any, what: str) -> tuple[Tensors, bool]:
    """The tensors in a tuple, and whether there was one alone."""
    single = isinstance(value, Tensor)
    items = (value,) if single else tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"The {what} must be either a Tensor or a tuple of Tensors but got {type(item)}.")
    return items, single


def _as_given(values: Any, single: bool) -> Any:
    return values[0] if single else tuple(values)


def _vector(v: Any, like: Tensors, name: str, what: str) -> Tensors:
    """The given vector, or 1 for a function with a single number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector {name} can only be None if {what} is a single Tensor with a single element.")
        return (_flambeau.ones_like(like[0]),)
    given, _ = _tuple(v, name)
    if len(given) != len(like) or any(a.shape != b.shape for a, b in zip(given, like, strict=True)):
        sizes = [tuple(x.shape) for x in like]
        raise RuntimeError(f"{name} should have the sizes of {what}, {sizes}, but has {[tuple(x.shape) for x in given]}")
    return given


def _variable(x: Tensor, create_graph: bool) -> Tensor:
    """Another tensor of the same values to differentiate by: with its history if `create_graph`, and with its tangent.

    Inside `vmap` it is batched, so that each example has a gradient of its own.
    """
    x = _flambeau._batched_at_all_levels(x)
    if create_graph and x.requires_grad:
        return x.view_as(x)
    primal, tangent = forward_ad.unpack_dual(x)
    leaf = primal.detach().requires_grad_()
    return leaf if tangent is None else forward_ad.make_dual(leaf, tangent)


def _variables(given: Tensors, create_graph: bool) -> Tensors:
    return tuple(_variable(x, create_graph) for x in given)


def _detached(tensors: Tensors) -> Tensors:
    return tuple(x.detach() for x in tensors)


def _one_number(outputs: Any) -> Tensors:
    found, single = _tuple(outputs, "outputs of the user-provided function")
    if len(found) != 1 or found[0].numel() != 1:
        raise RuntimeError("The function should return a single Tensor with a single element.")
    return found


def _gradients(
    outputs: Tensors, variables: Tensors, weights: Tensors, create_graph: bool, strict: bool
) -> Tensors:
    """The gradients, zeros where there are none, which in strict mode is an error."""
    pairs = [(output, weight) for output, weight in zip(outputs, weights, strict=True) if output.requires_grad]
    if strict and len(pairs) < len(outputs):
        raise RuntimeError("An output does not depend on the inputs, which is not allowed in strict mode.")
    if not pairs:
        return tuple(_flambeau.zeros_like(x) for x in variables)
    roots, seeds = zip(*pairs, strict=True)
    found = _flambeau._grad(roots, variables, seeds, True, create_graph, True)
    if strict and any(grad is None for grad in found):
        raise RuntimeError("The outputs do not depend on an input, which is not allowed in strict mode.")
    return tuple(_flambeau.zeros_like(x) if grad is None else grad for x, grad in zip(variables, found, strict=True))


def _by_rows(
    func: Callable[..., Any], given: Tensors, create_graph: bool, strict: bool, vectorize: bool
) -> tuple[list[Tensors], bool]:
    """For each output the Jacobians by each input, by backward passes."""
    with enable_grad():
        variables = _variables(given, create_graph)
        outputs, single = _tuple(func(*variables), "outputs of the user-provided function")

        def gradients(roots: Sequence[Tensor], seeds: Sequence[Tensor]) -> Tensors:
            return _gradients(tuple(roots), variables, tuple(seeds), create_graph, strict)

        rows = rows_of(outputs, variables, gradients, None if vectorize else 1)
    return [tuple(row) for row in rows], single


def _by_columns(func: Callable[..., Any], given: Tensors, create_graph: bool, vectorize: bool) -> tuple[list[Tensors], bool]:
    """The same in forward mode."""
    if not vectorize:
        return _column_by_column(func, given, create_graph)
    single = True
    with enable_grad():
        primals = given if create_graph else _detached(given)

        def tangents(duals: list[Tensor]) -> list[Tensor]:
            nonlocal single
            outputs, single = _tuple(func(*duals), "outputs of the user-provided function")
            pairs = [forward_ad.unpack_dual(output) for output in outputs]
            return [_flambeau.zeros_like(primal) if slope is None else slope for primal, slope in pairs]

        columns = columns_of(primals, "error", tangents)
    return [tuple(row) if create_graph else _detached(tuple(row)) for row in columns], single


def _column_by_column(func: Callable[..., Any], given: Tensors, create_graph: bool) -> tuple[list[Tensors], bool]:
    """One run of the function for each element of the inputs."""
    rows: list[list[Tensor]] = []
    single = True
    for index, x in enumerate(given):
        columns = []
        for at in range(x.numel()):
            direction = tuple(unit(y, at) if index == other else _flambeau.zeros_like(y) for other, y in enumerate(given))
            columns.append(_columns_of(func, given, direction, create_graph))
        outputs, single = columns[0] if columns else _tuple(func(*given), "outputs of the user-provided function")
        rows = rows or [[] for _ in outputs]
        for number, output in enumerate(outputs):
            whole = stacked([column[number] for column, _ in columns], output, (*x.shape, *output.shape))
            transposed = (*range(x.dim(), whole.dim()), *range(x.dim()))
            rows[number].append(whole.permute(transposed))
    return [tuple(row) for row in rows], single


def _columns_of(func: Callable[..., Any], given: Tensors, direction: Tensors, create_graph: bool) -> tuple[Tensors, bool]:
    _, slopes = jvp(func, given, direction, create_graph)
    return _tuple(slopes, "outputs of the user-provided function")
