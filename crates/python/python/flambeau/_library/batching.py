"""`register_vmap`: the kernel for the key `Batched`, which calls the rule with the tensors below the batched ones.

What a batched tensor is only the transformation knows: it sets `unwrap` and `wrap` here.
"""

from __future__ import annotations

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


def kernel(overload: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an operator that calls `rule(info, in_dims, *args, **kwargs)`, which returns outputs and their batch dimensions."""

    def batched(*args: Any, **kwargs: Any) -> Any:
        if unwrap is None or wrap is None:
            raise NotImplementedError(f"{overload}: a batched tensor arrived, but no transformation has said how it is unwrapped")
        info, in_dims, values = unwrap(args)
        output, out_dims = rule(info, in_dims, *values, **kwargs)
        return wrap(output, out_dims)

    return batched
