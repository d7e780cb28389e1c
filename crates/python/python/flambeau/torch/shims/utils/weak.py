"""torch.utils.weak: references by identity that do not keep their objects."""

from __future__ import annotations

from collections.abc import MutableMapping
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WeakRef = ref


_Ref: Any = ref


class WeakIdRef(_Ref):  # type: ignore[misc]
    """A weak reference that is equal to others of the same object only."""

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        found = self()
        return self is other or (found is not None and isinstance(other, ref) and found is other())


class WeakIdKeyDictionary(MutableMapping[Any, Any] if TYPE_CHECKING else MutableMapping):  # type: ignore[misc]
    """A dict by identity, whose items go with their keys."""

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self._ref = ref_type
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        return self.data[self._ref(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self._ref(key, lambda gone: self.data.pop(gone, None))] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self._ref(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key in (found() for found in list(self.data)) if key is not None])

    def __len__(self) -> int:
        return len(self.data)


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.ref = ref(tensor)

    def __call__(self) -> Any:
        return self.ref()


WeakTensorRefKey = WeakIdRef
