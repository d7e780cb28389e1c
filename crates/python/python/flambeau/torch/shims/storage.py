"""torch.storage: storages, which have no type of elements."""

from __future__ import annotations

from flambeau import UntypedStorage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage:
    """A storage with a type of elements; there are none."""


_LegacyStorage = TypedStorage
_StorageBase = StorageBase = UntypedStorage
