"""Functions of functions in forward mode."""

from __future__ import annotations

from .. import _flambeau
from ..autograd import forward_ad
from ..utils import _pytree as pytree
from .calls import Chosen, called, units_of, with_tangents
from .reverse import jacrev
from .trees import flatten
from .vmap import _check_chunk_size, _check_randomness, vmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .calls import ArgNums, Function
    from .trees import Build


Tensor = _flambeau.Tensor


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


def jacfwd(func: Function, argnums: ArgNums = 0, has_aux: bool = False, *, randomness: str = "error", chunk_size: int | None = None) -> Function:
    """A function that gives the Jacobian of `func` by the arguments `argnums`, by columns: one run for all, under `vmap`.

    With a `chunk_size`, there is one run for so many columns.
    """
    _check_randomness(randomness)
    _check_chunk_size(chunk_size)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen(args, argnums)
        parts: list[list[Tensor]] = []
        build: Build | None = None
        aux: Any = None
        for index, x in enumerate(chosen.leaves):
            columns, build, aux = _columns(func, chosen, kwargs, index, has_aux, randomness, chunk_size)
            parts = parts or [[] for _ in columns]
            for part, column in zip(parts, columns, strict=True):
                part.append(column.unflatten(-1, x.shape) if x.dim() > 0 else column.squeeze(-1))
        nested: Any = [chosen.like(part) for part in parts]
        result = nested if build is None else build(nested)
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """A function that gives the Hessian of `func`, which gives one number: forward mode through a backward pass."""
    return jacfwd(jacrev(func, argnums), argnums)


def _columns(
    func: Function, chosen: Chosen, kwargs: dict[str, Any], index: int, has_aux: bool, randomness: str, chunk_size: int | None
) -> tuple[list[Tensor], Build, Any]:
    """The tangents of the outputs along each unit vector of a leaf, in a last dimension, how they stand in the outputs, and what comes
    beside."""
    x = chosen.leaves[index]
    kept: dict[str, Any] = {}

    def column(unit: Tensor) -> tuple[Tensor, ...]:
        values = list(chosen.leaves)
        with forward_ad.dual_level():
            values[index] = forward_ad.make_dual(values[index], unit.view(x.shape))
            outputs, aux = called(func, chosen.replaced(values), kwargs, has_aux)
            _, slopes, kept["build"] = with_tangents(outputs, False)
            kept["aux"] = _outside(aux)
        return tuple(slopes)

    if x.numel() == 0:
        outputs, aux = called(func, chosen.replaced(list(chosen.leaves)), kwargs, has_aux)
        found, build = flatten(outputs, "outputs of the function")
        return [_flambeau.zeros((*y.shape, 0), dtype=y.dtype, device=y.device) for y in found], build, aux
    columns = vmap(column, out_dims=-1, randomness=randomness, chunk_size=chunk_size)(units_of(x))
    return list(columns), kept["build"], kept["aux"]


def _outside(aux: Any) -> Any:
    """What a function gives beside its outputs, for one column, which is that of all unless it depends on the tangents."""
    return pytree.tree_map(lambda value: _first(value) if isinstance(value, Tensor) else value, aux)


def _first(value: Tensor) -> Tensor:
    inside, dim = _flambeau._vmap_parts(forward_ad.unpack_dual(value).primal)
    return inside if dim is None else inside.select(dim, 0)
