"""Functions of functions: their gradients, products with their Jacobians, and these as a whole.

They nest in one another, but for forward mode in itself: `jvp` and `jacfwd` open the one level of tangents that a thread has.
Nothing is vectorised, since there is no `vmap`: `jacrev` runs one backward pass for each row and `jacfwd` the function once for
each column. Gradients of what a function captures are recorded where an argument requires grad.
"""

from __future__ import annotations

from .. import _flambeau
from .._modes import enable_grad
from ..autograd import forward_ad
from ..autograd.functional import _gradients, _stacked, _tuple, _unit, _variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., Any]
    Places = int | tuple[int, ...]


__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp"]

Tensor = _flambeau.Tensor


def grad(func: Function, argnums: Places = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func`, which gives one number, by the arguments `argnums`."""
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func: Function, argnums: Places = 0, has_aux: bool = False) -> Function:
    """The same with the value of `func` beside it."""

    def gradient(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            given, single = _chosen(args, argnums)
            recorded = any(x.requires_grad for x in given)
            variables = tuple(_variable(x, True) for x in given)
            value, aux = _called(func, _replaced(args, argnums, variables), kwargs, has_aux)
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise RuntimeError("Expected the function given to grad to return a scalar tensor")
            found = _gradients((value,), variables, (_flambeau.ones_like(value),), recorded, False)
            value = value if recorded else _plain(value)
        return found[0] if single else found, (value, aux) if has_aux else value

    return gradient


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The outputs of `func` at `primals`, and their tangents along `tangents`: forward mode."""
    given, _ = _tuple(primals, "primals")
    along, _ = _tuple(tangents, "tangents")
    if len(given) != len(along):
        raise RuntimeError(f"jvp: expected as many tangents as primals, {len(given)}, but got {len(along)}")
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(given, along, strict=True)]
        outputs, aux = _called(func, duals, {}, has_aux)
        found, single = _tuple(outputs, "outputs of the function")
        pairs = [forward_ad.unpack_dual(output) for output in found]
        if strict and any(tangent is None for _, tangent in pairs):
            raise RuntimeError("jvp: an output does not depend on the primals, which is not allowed in strict mode")
        values = tuple(primal for primal, _ in pairs)
        slopes = tuple(_flambeau.zeros_like(primal) if slope is None else slope for primal, slope in pairs)
    both = (values[0], slopes[0]) if single else (values, slopes)
    return (*both, aux) if has_aux else both


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The outputs of `func` at `primals`, and a function from gradients of the outputs to those of the primals."""
    with enable_grad():
        recorded = any(x.requires_grad for x in primals)
        variables = tuple(_variable(x, True) for x in primals)
        outputs, aux = _called(func, variables, {}, has_aux)
        found, single = _tuple(outputs, "outputs of the function")

    def pulled_back(*cotangents: Any, create_graph: bool | None = None) -> tuple[Tensor, ...]:
        seeds, _ = _tuple(cotangents[0] if len(cotangents) == 1 else cotangents, "cotangents")
        if len(seeds) != len(found):
            raise RuntimeError(f"vjp: expected {len(found)} cotangents but got {len(seeds)}")
        wanted = create_graph or (create_graph is None and (recorded or any(x.requires_grad for x in seeds)))
        with enable_grad():
            return _gradients(found, variables, seeds, wanted, False)

    shown = found if recorded else tuple(_plain(x) for x in found)
    value = shown[0] if single else shown
    return (value, pulled_back, aux) if has_aux else (value, pulled_back)


def jacrev(func: Function, argnums: Places = 0, *, has_aux: bool = False) -> Function:
    """A function that gives the Jacobian of `func` by the arguments `argnums`, by rows: backward passes."""

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            given, single_input = _chosen(args, argnums)
            recorded = any(x.requires_grad for x in given)
            variables = tuple(_variable(x, True) for x in given)
            outputs, aux = _called(func, _replaced(args, argnums, variables), kwargs, has_aux)
            found, single = _tuple(outputs, "outputs of the function")
            rows = [_rows(output, variables, recorded) for output in found]
        shown = tuple(row[0] if single_input else row for row in rows)
        whole = shown[0] if single else shown
        return (whole, aux) if has_aux else whole

    return jacobian


def jacfwd(func: Function, argnums: Places = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """The same by columns: forward mode, one run of `func` for each element of the arguments."""

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        given, single_input = _chosen(args, argnums)
        aux, single = None, True
        parts: list[list[Tensor]] = []
        for place, x in enumerate(given):
            columns = []
            for at in range(x.numel()):
                found, single, aux = _column(func, args, kwargs, argnums, place, _unit(x, at), has_aux)
                columns.append(found)
            if not columns:
                outputs, aux = _called(func, args, kwargs, has_aux)
                found, single = _tuple(outputs, "outputs of the function")
            parts = parts or [[] for _ in found]
            for number, output in enumerate(found):
                whole = _stacked([column[number] for column in columns], output, (*x.shape, *output.shape))
                parts[number].append(whole.permute((*range(x.dim(), whole.dim()), *range(x.dim()))))
        shown = tuple(part[0] if single_input else tuple(part) for part in parts)
        result = shown[0] if single else shown
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: Places = 0) -> Function:
    """A function that gives the Hessian of `func`, which gives one number: forward mode through a backward pass."""
    return jacfwd(jacrev(func, argnums), argnums)


def _places(argnums: Places) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _chosen(args: Any, argnums: Places) -> tuple[tuple[Tensor, ...], bool]:
    """The arguments to differentiate by, and whether it is one alone."""
    for place in _places(argnums):
        if not -len(args) <= place < len(args):
            raise RuntimeError(f"Got argnum={place}, but only {len(args)} positional inputs")
        if not isinstance(args[place], Tensor):
            raise TypeError(f"expected a Tensor as argument {place} but got {type(args[place])}")
    return tuple(args[place] for place in _places(argnums)), isinstance(argnums, int)


def _replaced(args: Any, argnums: Places, values: Any) -> list[Any]:
    given = list(args)
    for place, value in zip(_places(argnums), values, strict=True):
        given[place] = value
    return given


def _called(func: Function, args: Any, kwargs: dict[str, Any], has_aux: bool) -> tuple[Any, Any]:
    outputs = func(*args, **kwargs)
    if not has_aux:
        return outputs, None
    if not isinstance(outputs, tuple) or len(outputs) != 2:
        raise RuntimeError("with has_aux=True, expected the function to return a tuple of outputs and something more")
    return outputs


def _plain(value: Tensor) -> Tensor:
    """The value without the history that was made here, but with its tangent."""
    primal, tangent = forward_ad.unpack_dual(value)
    return primal.detach() if tangent is None else forward_ad.make_dual(primal.detach(), tangent)


def _rows(output: Tensor, variables: tuple[Tensor, ...], recorded: bool) -> tuple[Tensor, ...]:
    units = [_unit(output, at) for at in range(output.numel())]
    found = [_gradients((output,), variables, (unit,), recorded, False) for unit in units]
    by_input = [[row[place] for row in found] for place in range(len(variables))]
    pairs = zip(by_input, variables, strict=True)
    return tuple(_stacked(part, x, (*output.shape, *x.shape)) for part, x in pairs)


def _column(
    func: Function, args: Any, kwargs: dict[str, Any], argnums: Places, place: int, unit: Tensor, has_aux: bool
) -> tuple[tuple[Tensor, ...], bool, Any]:
    """The tangents of the outputs along a unit vector, whether there is one output alone, and what comes beside."""
    values = list(_chosen(args, argnums)[0])
    with forward_ad.dual_level():
        values[place] = forward_ad.make_dual(values[place], unit)
        outputs, aux = _called(func, _replaced(args, argnums, values), kwargs, has_aux)
        found, single = _tuple(outputs, "outputs of the function")
        pairs = [forward_ad.unpack_dual(output) for output in found]
        slopes = tuple(_flambeau.zeros_like(primal) if slope is None else slope for primal, slope in pairs)
    return slopes, single, aux
