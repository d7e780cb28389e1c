"""Functions of functions by backward passes."""

from __future__ import annotations

from .. import _flambeau
from .._modes import enable_grad
from ..autograd._jacobians import rows_of
from ..autograd.functional import _gradients
from .calls import Chosen, called, plain
from .trees import flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .calls import ArgNums, Function


Tensor = _flambeau.Tensor


def grad(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func`, which gives one number, by the arguments `argnums`."""
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The same with the value of `func` beside it."""

    def gradient(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen(args, argnums)
        with enable_grad():
            variables = chosen.variables()
            value, aux = called(func, chosen.replaced(variables), kwargs, has_aux)
            if not isinstance(value, Tensor) or value.numel() != 1:
                raise RuntimeError("Expected the function given to grad to return a scalar tensor")
            recorded = chosen.recorded([value], variables)
            found = _gradients((value,), variables, (_flambeau.ones_like(value),), recorded, False)
            shown = value if recorded else plain(value)
        return chosen.like(found), (shown, aux) if has_aux else shown

    return gradient


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The outputs of `func` at `primals`, and a function from gradients of the outputs to those of the primals."""
    chosen = Chosen(primals, tuple(range(len(primals))))
    with enable_grad():
        variables = chosen.variables()
        outputs, aux = called(func, chosen.replaced(variables), {}, has_aux)
        found, build = flatten(outputs, "outputs of the function")
        recorded = chosen.recorded(found, variables)
        value = build(found if recorded else [plain(x) for x in found])

    def pulled_back(*cotangents: Any, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        seeds, _ = flatten(given, "cotangents")
        if [seed.shape for seed in seeds] != [output.shape for output in found]:
            sizes = [tuple(output.shape) for output in found]
            raise RuntimeError(f"vjp: expected cotangents of sizes {sizes} but got {[tuple(x.shape) for x in seeds]}")
        create = create_graph or (create_graph is None and (recorded or any(x.requires_grad for x in seeds)))
        with enable_grad():
            return chosen.like(_gradients(tuple(found), variables, tuple(seeds), bool(create), False))

    return (value, pulled_back, aux) if has_aux else (value, pulled_back)


def jacrev(
    func: Function,
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that gives the Jacobian of `func` by the arguments `argnums`, by rows: one backward pass with a batch of gradients.

    With a `chunk_size` a pass computes so many rows, which needs less memory. With 1, rows are computed without a batch.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = Chosen(args, argnums)
        with enable_grad():
            variables = chosen.variables()
            outputs, aux = called(func, chosen.replaced(variables), kwargs, has_aux)
            found, build = flatten(outputs, "outputs of the function")
            recorded = chosen.recorded(found, variables)

            def gradients(roots: Sequence[Tensor], seeds: Sequence[Tensor]) -> Sequence[Tensor]:
                return _gradients(tuple(roots), variables, tuple(seeds), recorded, False)

            parts: Any = [chosen.like(rows) for rows in rows_of(found, variables, gradients, chunk_size)]
        whole = build(parts)
        return (whole, aux) if has_aux else whole

    return jacobian
