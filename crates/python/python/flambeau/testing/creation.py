"""Random tensors for tests."""

from __future__ import annotations

import math

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor


def make_tensor(
    *shape: Any,
    dtype: flambeau.dtype,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of uniform random numbers from `low`, included, to `high`, excluded."""
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    sizes = [*shape[:-1], 2 * shape[-1]] if noncontiguous and shape else list(shape)
    if dtype is flambeau.bool:
        made = flambeau.randint(0, 2, sizes, device=device).to(dtype)
    elif dtype.is_floating_point:
        ends = (-9.0 if low is None else low, 9.0 if high is None else high)
        made = flambeau.empty(sizes, device=device, dtype=flambeau.float64).uniform_(*ends).to(dtype)
    else:
        first = (0 if dtype is flambeau.uint8 else -9) if low is None else math.floor(low)
        last = 10 if high is None else math.ceil(high)
        made = flambeau.randint(first, last, sizes, device=device).to(dtype)
    if exclude_zero:
        made[made == 0] = flambeau.finfo(dtype).tiny if dtype.is_floating_point else 1
    if noncontiguous and shape:
        made = made[..., ::2]
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_(requires_grad) if requires_grad else made
