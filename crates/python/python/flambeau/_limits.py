"""Limits of the element types: `finfo` and `iinfo`."""

from __future__ import annotations

from . import _flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._flambeau import dtype


# Bits, machine epsilon, largest and smallest normal value: IEEE 754, and bfloat16's eight bits of precision.
_FLOATS = {
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14, 2.0**-24),
    "bfloat16": (16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 2.0**-133),
    "float32": (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149),
    "float8_e4m3fn": (8, 0.125, 448.0, 2.0**-6, 2.0**-9),
    "float8_e5m2": (8, 0.25, 57344.0, 2.0**-14, 2.0**-16),
    "float8_e8m0fnu": (8, 1.0, 2.0**127, 2.0**-127, 2.0**-127),
    # There are no tensors of these; packages read their limits.
    "float8_e4m3fnuz": (8, 0.125, 240.0, 2.0**-7, 2.0**-10),
    "float8_e5m2fnuz": (8, 0.125, 57344.0, 2.0**-15, 2.0**-17),
    "float64": (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022, 2.0**-1074),
}


def _name(dtype: dtype) -> str:
    return str(dtype).split(".")[-1]


class finfo:
    """The limits of a floating point type."""

    def __init__(self, dtype: dtype | None = None) -> None:
        self.dtype = _name(_flambeau.get_default_dtype() if dtype is None else dtype)
        self.dtype = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(self.dtype, self.dtype)
        if self.dtype not in _FLOATS:
            raise TypeError("flambeau.finfo() requires a floating point input type. Use flambeau.iinfo to handle integers")
        self.bits, self.eps, self.max, self.tiny, self.smallest_subnormal = _FLOATS[self.dtype]
        self.min, self.smallest_normal = -self.max, self.tiny
        if self.dtype == "float8_e8m0fnu":
            self.min = self.tiny  # There are no negative numbers.
        self.resolution = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}.get(self.dtype, 1.0)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer type."""

    def __init__(self, dtype: dtype) -> None:
        self.dtype = _name(dtype)
        if "int" not in self.dtype:
            raise TypeError("flambeau.iinfo() requires an integer input type. Use flambeau.finfo to handle floats")
        self.bits = 8 * dtype.itemsize
        unsigned = self.dtype.startswith("u")
        self.min = 0 if unsigned else -(2 ** (self.bits - 1))
        self.max = 2 ** (self.bits - (0 if unsigned else 1)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
