"""Functions of functions in forward mode."""

from __future__ import annotations

from ..autograd import forward_ad
from ..autograd.functional import _stacked, _unit
from .calls import Chosen, called, with_tangents
from .reverse import jacrev
from .trees import flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._flambeau import Tensor
    from .calls import ArgNums, Function
    from .trees import Build


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The outputs of `func` at `primals`, and their tangents along `tangents`."""
    if not isinstance(primals, (tuple, list)):
        raise TypeError(f"jvp: expected primals to be a tuple but got {type(primals).__name__}")
    chosen = Chosen(tuple(primals), tuple(range(len(primals))))
    along, _ = flatten(tangents, "tangents")
    if len(chosen.leaves) != len(along):
        raise RuntimeError(f"jvp: expected as many tangents as primals, {len(chosen.leaves)}, but got {len(along)}")
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(chosen.leaves, along, strict=True)]
        outputs, aux = called(func, chosen.replaced(duals), {}, has_aux)
        values, slopes, build = with_tangents(outputs, strict)
    both = build(values), build(slopes)
    return (*both, aux) if has_aux else both


def jacfwd(func: Function, argnums: ArgNums = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """A function that gives the Jacobian of `func` by the arguments `argnums`, by columns: one run for each element of those."""

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen(args, argnums)
        parts: list[list[Tensor]] = []
        build: Build | None = None
        aux: Any = None
        for index, x in enumerate(chosen.leaves):
            columns = []
            for at in range(x.numel()):
                slopes, build, aux = _column(func, chosen, kwargs, index, _unit(x, at), has_aux)
                columns.append(slopes)
            if not columns:
                outputs, aux = called(func, args, kwargs, has_aux)
                slopes, build = flatten(outputs, "outputs of the function")
            parts = parts or [[] for _ in slopes]
            for number, output in enumerate(slopes):
                whole = _stacked([column[number] for column in columns], output, (*x.shape, *output.shape))
                parts[number].append(whole.permute((*range(x.dim(), whole.dim()), *range(x.dim()))))
        nested: Any = [chosen.like(part) for part in parts]
        result = nested if build is None else build(nested)
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """A function that gives the Hessian of `func`, which gives one number: forward mode through a backward pass."""
    return jacfwd(jacrev(func, argnums), argnums)


def _column(
    func: Function, chosen: Chosen, kwargs: dict[str, Any], index: int, unit: Tensor, has_aux: bool
) -> tuple[list[Tensor], Build, Any]:
    """The tangents of the outputs along a unit vector, how they stand in the outputs, and what comes beside."""
    values = list(chosen.leaves)
    with forward_ad.dual_level():
        values[index] = forward_ad.make_dual(values[index], unit)
        outputs, aux = called(func, chosen.replaced(values), kwargs, has_aux)
        _, slopes, build = with_tangents(outputs, False)
    return slopes, build, aux
