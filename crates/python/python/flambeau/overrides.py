"""What authors of tensor-like classes need: see `__flambeau_function__` of `Tensor`."""

from ._overrides import DisableFlambeauFunction, handle_flambeau_function, has_flambeau_function

__all__ = ["DisableFlambeauFunction", "handle_flambeau_function", "has_flambeau_function"]
