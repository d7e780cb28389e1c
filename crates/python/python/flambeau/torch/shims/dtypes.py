"""Dtypes of PyTorch's that no tensor here has: objects that can be named and compared."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The bytes of an element.
SIZES = {
    "bcomplex32": 4,
    "bits16": 2,
    "bits1x8": 1,
    "bits2x4": 1,
    "bits4x2": 1,
    "bits8": 1,
    "cdouble": 16,
    "cfloat": 8,
    "complex128": 16,
    "complex64": 8,
    "float4_e2m1fn_x2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "qint32": 4,
    "qint8": 1,
    "quint2x4": 1,
    "quint4x2": 1,
    "quint8": 1,
    **{f"{kind}{bits}": 1 for kind in ("int", "uint") for bits in range(1, 8)},
}
OTHER_NAMES = {"cdouble": "complex128", "cfloat": "complex64"}

_made: dict[str, NoDtype] = {}


class NoDtype:
    """A dtype that no tensor has; operators that get one say so."""

    def __init__(self, name: str) -> None:
        self._name, self.itemsize = name, SIZES[name]
        self.is_complex = "complex" in name
        self.is_floating_point = name.startswith("float")
        self.is_signed = not name.startswith(("uint", "bits", "quint"))

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> Any:
        return of, (self._name,)

    def to_real(self) -> NoDtype:
        """The dtype itself."""
        return self


def of(name: str) -> NoDtype:
    """The dtype of that name, always the same object."""
    name = OTHER_NAMES.get(name, name)
    if name not in _made:
        _made[name] = NoDtype(name)
    return _made[name]


class NoLayout:
    """A layout that no tensor has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"
