"""Modules in another type of numbers, or on another device."""

from __future__ import annotations

import flambeau
from flambeau import Tensor
from flambeau.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable, TypeVar

    T = TypeVar("T", bound="Converts")


class Converts:
    """The part of `Module` that is about what its tensors are."""

    if TYPE_CHECKING:
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]

        def children(self) -> Iterator[Any]:
            """Parts, each once."""

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replaces every parameter, gradient and buffer by `fn(tensor)`; what was shared stays shared.

        A tensor's type never changes, so a parameter that does is another object: optimisers come after conversions.
        """
        with flambeau.no_grad():
            self._replace(fn, {}, recurse)
        return self

    def _replace(self, fn: Callable[[Tensor], Tensor], made: dict[int, tuple[Tensor, Tensor]], recurse: bool) -> None:
        """The work of `_apply`; `made` maps the id of each converted tensor to it and its replacement."""
        for members in (self._parameters, self._buffers):
            for name, tensor in members.items():
                if tensor is not None and id(tensor) not in made:
                    made[id(tensor)] = tensor, _converted(tensor, fn)
                if tensor is not None:
                    members[name] = made[id(tensor)][1]
        for module in self.children() if recurse else ():
            module._replace(fn, made, recurse)

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Converts floating point parameters and buffers to another dtype, or moves everything to another device."""
        args = tuple(arg for arg in args if arg is not None)
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        dtype = kwargs.get("dtype") or next((arg for arg in args if isinstance(arg, flambeau.dtype)), None)
        device = kwargs.get("device") or next((arg for arg in args if isinstance(arg, (str, flambeau.device))), None)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        # A memory format is for weights and images of its number of dimensions; other tensors stay as they are.
        memory_format = kwargs.pop("memory_format", None)
        dimensions = {flambeau.channels_last: (4, 5), flambeau.channels_last_3d: (4, 5)}.get(memory_format, ())

        def convert(tensor: Tensor) -> Tensor:
            if memory_format is not None and tensor.dim() in dimensions:
                chosen = flambeau.channels_last if tensor.dim() == 4 else flambeau.channels_last_3d
                return tensor.to(device, dtype if tensor.is_floating_point() else None, memory_format=chosen)
            if tensor.is_floating_point():
                return tensor.to(*args, **kwargs) if args or kwargs else tensor
            return tensor if device is None else tensor.to(device)

        return self._apply(convert)

    def _floats_to(self: T, dtype: flambeau.dtype) -> T:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self: T) -> T:
        """Makes floating point parameters and buffers float32."""
        return self._floats_to(flambeau.float32)

    def double(self: T) -> T:
        """Makes floating point parameters and buffers float64."""
        return self._floats_to(flambeau.float64)

    def half(self: T) -> T:
        """Makes floating point parameters and buffers float16."""
        return self._floats_to(flambeau.float16)

    def bfloat16(self: T) -> T:
        """Makes floating point parameters and buffers bfloat16."""
        return self._floats_to(flambeau.bfloat16)

    def type(self: T, dst_type: flambeau.dtype) -> T:
        """Makes all parameters and buffers another dtype."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def cpu(self: T) -> T:
        """Moves everything to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def to_empty(self: T, *, device: flambeau.device | str | None, recurse: bool = True) -> T:
        """Moves parameters and buffers to another device without their values."""
        return self._apply(lambda tensor: flambeau.empty_like(tensor, device=device), recurse)


def _converted(tensor: Tensor, fn: Callable[[Tensor], Tensor]) -> Tensor:
    """What `fn` makes of a parameter, with its gradient, or of a buffer."""
    result = fn(tensor)
    if not isinstance(tensor, Parameter) or result is tensor:
        return result
    param = Parameter(result, tensor.requires_grad)
    param.grad = None if tensor.grad is None else fn(tensor.grad)
    return param
