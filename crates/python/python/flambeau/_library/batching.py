"""`register_vmap`: the kernel for the key `Batched`, which calls the rule with the tensors below the batched ones.

What a batched tensor is only the transformation knows: it may set `unwrap` and `wrap` here.
"""

from __future__ import annotations

from flambeau import Tensor, _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NamedTuple

    class VmapInfo(NamedTuple):
        """What a rule is told of the batch."""

        batch_size: int
        randomness: str

else:
    from collections import namedtuple

    VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))

# `unwrap(args)` returns a VmapInfo, the batch dimension of each argument or None, and the arguments; `wrap(output, out_dims)` the result.
unwrap: Callable[[tuple[Any, ...]], tuple[Any, tuple[Any, ...], tuple[Any, ...]]] | None = None
wrap: Callable[[Any, Any], Any] | None = None


def _unwrapped(args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The innermost level's tensors, by the functions of the native module, if it has batched tensors."""
    level: Any = getattr(_flambeau, "_vmap_level", lambda: None)()
    if level is None:
        raise NotImplementedError("a batched tensor arrived, but no transformation has said how it is unwrapped")
    pairs = [_parts(value) for value in args]
    return VmapInfo(*level), tuple(dim for _, dim in pairs), tuple(value for value, _ in pairs)


def _parts(value: Any) -> tuple[Any, Any]:
    """What is below the batched tensors of an argument, and the dimensions of the batch; a list has a list of them."""
    if isinstance(value, (list, tuple)):
        pairs = [_parts(item) for item in value]
        return [item for item, _ in pairs], [dim for _, dim in pairs]
    parts: Any = getattr(_flambeau, "_vmap_parts")
    return parts(value) if isinstance(value, Tensor) else (value, None)


def _is_batched(dims: Any) -> bool:
    """Whether a dimension is given among those of an argument or several."""
    return any(map(_is_batched, dims)) if isinstance(dims, (list, tuple)) else dims is not None


def _refuse_batched(overload: Any, names: Any, dims: Any) -> None:
    """An error for keyword-only arguments that have a batch: a rule is told no dimensions of them."""
    for name, dim in zip(names, dims):
        if _is_batched(dim):
            raise NotImplementedError(
                f"{overload}: expected a keyword-only argument `{name}` without a batch, since the rule that register_vmap set is told the "
                f"dimensions of positional arguments only, but got one with the batch in dimension {dim}"
            )


def _wrapped(output: Any, out_dims: Any) -> Any:
    """The results as batched tensors of the innermost level."""
    if isinstance(output, (tuple, list)):
        return type(output)(_wrapped(value, dim) for value, dim in zip(output, out_dims))
    return output if out_dims is None else getattr(_flambeau, "_vmap_wrap")(output, out_dims)


def kernel(overload: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an operator that calls `rule(info, in_dims, *args, **kwargs)`, which returns outputs and their batch dimensions."""

    def batched(*args: Any, **kwargs: Any) -> Any:
        info, in_dims, values = (unwrap or _unwrapped)(args)
        _refuse_batched(overload, kwargs, (unwrap or _unwrapped)(tuple(kwargs.values()))[1])
        if not _is_batched(in_dims):
            # Calls inside the rule have the key too, as long as the level is open.
            return _flambeau._call_excluding("Batched", overload._op, args, kwargs)
        output, out_dims = rule(info, in_dims, *values, **kwargs)
        return (wrap or _wrapped)(output, out_dims)

    return batched
