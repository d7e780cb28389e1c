"""Padding as layers: a table of modes and dimensions."""

from __future__ import annotations

from flambeau.nn import functional as F
from flambeau.nn.module import Module
from flambeau.nn.modules.sizes import for_each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor
    from flambeau.nn.modules.sizes import Sizes


class _Pad(Module):
    mode: str
    dims: int

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = for_each(padding, 2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad):
    """`value` around the last dimension."""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """`value` around the last two dimensions."""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """`value` around the last three dimensions."""

    dims = 3


class ZeroPad1d(_ZeroPad):
    """0 around the last dimension."""

    dims = 1


class ZeroPad2d(_ZeroPad):
    """0 around the last two dimensions."""

    dims = 2


class ZeroPad3d(_ZeroPad):
    """0 around the last three dimensions."""

    dims = 3


class ReflectionPad1d(_Pad):
    """The last dimension, reflected at its ends."""

    mode, dims = "reflect", 1


class ReflectionPad2d(_Pad):
    """The last two dimensions, reflected at their ends."""

    mode, dims = "reflect", 2


class ReflectionPad3d(_Pad):
    """The last three dimensions, reflected at their ends."""

    mode, dims = "reflect", 3


class ReplicationPad1d(_Pad):
    """The ends of the last dimension, repeated."""

    mode, dims = "replicate", 1


class ReplicationPad2d(_Pad):
    """The ends of the last two dimensions, repeated."""

    mode, dims = "replicate", 2


class ReplicationPad3d(_Pad):
    """The ends of the last three dimensions, repeated."""

    mode, dims = "replicate", 3


class CircularPad1d(_Pad):
    """The last dimension, going round."""

    mode, dims = "circular", 1


class CircularPad2d(_Pad):
    """The last two dimensions, going round."""

    mode, dims = "circular", 2


class CircularPad3d(_Pad):
    """The last three dimensions, going round."""

    mode, dims = "circular", 3
