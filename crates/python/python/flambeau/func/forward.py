"""Functions of functions in forward mode."""

from __future__ import annotations

from .. import _flambeau
from ..autograd import forward_ad
from ..autograd._jacobians import columns_of, first_example
from ..utils import _pytree as pytree
from .calls import Chosen, called, with_tangents
from .reverse import jacrev
from .trees import flatten
from .vmap import check_randomness

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


def jacfwd(func: Function, argnums: ArgNums = 0, has_aux: bool = False, *, randomness: str = "error") -> Function:
    """A function that gives the Jacobian of `func` by the arguments `argnums`, by columns: one run with a batch of tangents.

    `randomness` is as in `vmap`.
    """
    check_randomness(randomness)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen(args, argnums)
        build: Build | None = None
        aux: Any = None

        def tangents(duals: list[Tensor]) -> list[Tensor]:
            nonlocal build, aux
            outputs, aux = called(func, chosen.replaced(duals), kwargs, has_aux)
            _, slopes, build = with_tangents(outputs, False)
            aux = pytree.tree_map_only(Tensor, first_example, aux)
            return slopes

        parts: Any = [chosen.like(columns) for columns in columns_of(chosen.leaves, randomness, tangents)]
        result = parts if build is None else build(parts)
        return (result, aux) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """A function that gives the Hessian of `func`, which gives one number: forward mode through a backward pass."""
    return jacfwd(jacrev(func, argnums), argnums)
