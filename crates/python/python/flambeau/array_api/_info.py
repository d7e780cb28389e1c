"""What the namespace can do: `__array_namespace_info__` of the standard."""

from __future__ import annotations

import flambeau

from ._arguments import BOOLEAN, COMPLEX, REAL, SIGNED, UNSIGNED, default_complex, types
from ._data_types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import device as Device, dtype as DType

# Of the core, which refuses more.
MAX_DIMENSIONS = 64


class __array_namespace_info__:  # noqa: N801
    """Capabilities, devices and types of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Whether optional parts of the standard are there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAX_DIMENSIONS}

    def default_device(self) -> Device:
        """The device of new arrays."""
        return flambeau.get_default_device()

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        """The types of new arrays by kind."""
        return {
            "real floating": flambeau.get_default_dtype(),
            "complex floating": default_complex(),
            "integral": flambeau.int64,
            "indexing": flambeau.int64,
        }

    def devices(self) -> tuple[Device, ...]:
        """The devices on which arrays may be."""
        gpus = (flambeau.device(f"cuda:{at}") for at in range(flambeau.cuda.device_count()))
        return (flambeau.device("cpu"), *gpus)

    def dtypes(self, *, device: Device | str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The types of the standard by name, all or those of a kind."""
        if kind is None:
            return types(BOOLEAN + SIGNED + UNSIGNED + REAL + COMPLEX)
        names: tuple[str, ...] = ()
        for one in (kind,) if isinstance(kind, str) else kind:
            if one not in KINDS:
                raise ValueError(f"dtypes: expected kind to be one of {', '.join(KINDS)} but got {one!r}")
            names += KINDS[one]
        return types(names)
