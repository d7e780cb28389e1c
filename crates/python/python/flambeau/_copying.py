"""Pickling and copying: tensors that share a storage share one again afterwards, as in PyTorch."""

from __future__ import annotations

from . import _dispatch, _flambeau, _sparse
from ._flambeau import Tensor, UntypedStorage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The Python objects of storages, by their identity; the dict is created on first use.
_storages: Any = None


def untyped_storage(self):
    """The bytes below the tensor: the same object for all tensors that share them, for as long as it lives."""
    global _storages
    if _storages is None:
        from weakref import WeakValueDictionary

        _storages = WeakValueDictionary()
    identity = self._storage_identity()
    found = _storages.get(identity)
    if found is None:
        found = _storages[identity] = self._storage()
    return found


def _storage_from_file(filename, shared=False, nbytes=0):
    """The first bytes of a file, in memory of its own; memory that is shared with the file is not implemented."""
    if shared:
        raise NotImplementedError("UntypedStorage.from_file: memory that is shared with a file is not implemented")
    with open(filename, "rb") as file:
        data = file.read(nbytes)
    if len(data) < nbytes:
        raise RuntimeError(f"UntypedStorage.from_file: expected {nbytes} bytes but {filename} has {len(data)}")
    return UntypedStorage.frombytes(data)


def _storage_item(self, index):
    """A byte, or of a slice a storage with a copy of the bytes."""
    whole = self._tensor(_flambeau.uint8, (len(self),), (1,), 0)
    return whole[index].clone().untyped_storage() if isinstance(index, slice) else int(whole[index])


def share_memory_(self):
    """Moves the elements to shared memory: processes that get the tensor, or are forked, see the same ones."""
    if not self.is_meta:
        self.untyped_storage().share_memory_()
    return self


def is_shared(self):
    """Whether the elements are in shared memory."""
    return not self.is_meta and self.untyped_storage().is_shared()


def _reduce_storage(self):
    return UntypedStorage.frombytes, (self.tobytes(),)


def _deepcopy_storage(self, memo):
    if id(self) not in memo:
        memo[id(self)] = self.clone()
    return memo[id(self)]


def _rebuild_tensor(storage, dtype, sizes, strides, offset, requires_grad):
    made = storage._tensor(dtype, sizes, strides, offset)
    return made.requires_grad_() if requires_grad else made


def _rebuild_meta(dtype, sizes, strides, requires_grad):
    made = _flambeau.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return made.requires_grad_() if requires_grad else made


def _rebuild_object(build, cls, arguments, state):
    """An object of a subclass, or one with attributes."""
    made = build(*arguments)
    if cls is not Tensor:
        made = Tensor._make_subclass(cls, made, made.requires_grad)
    restore = getattr(cls, "__setstate__", None)
    if restore is not None:
        restore(made, state)
    else:
        made.__dict__.update(state)
    return made


def _recipe(self, storage):
    """The function and arguments that rebuild the tensor on its storage, or on a copy of that."""
    if _sparse.is_layout(self):
        return _sparse.recipe(self)
    if self.is_meta:
        return _rebuild_meta, (self.dtype, tuple(self.shape), self.stride(), self.requires_grad)
    geometry = tuple(self.shape), self.stride(), self.storage_offset()
    return _rebuild_tensor, (storage, self.dtype, *geometry, self.requires_grad)


def _whole_recipe(self, storage, state):
    build, arguments = _recipe(self, storage)
    if type(self) is Tensor and not state:
        return build, arguments
    return _rebuild_object, (build, type(self), arguments, state)


def _state(self):
    getter = getattr(self, "__getstate__", None)
    # Since Python 3.11 every object has the method; only one of a class of its own says something else.
    own = getattr(type(self), "__getstate__", None) is not getattr(object, "__getstate__", None)
    return getter() if getter is not None and own else dict(self.__dict__)


def __reduce_ex__(self, protocol):
    """Elements, geometry, `requires_grad` and attributes; no history and no gradient."""
    if _flambeau._is_wrapper(self):
        return _dispatch.reduce_wrapper(self, _state(self))
    return _whole_recipe(self, _storage_of(self), _state(self))


def _storage_of(self):
    """The storage; sparse tensors consist of others, which have storages."""
    return None if _sparse.is_layout(self) else self.untyped_storage()


def __copy__(self):
    """Another tensor of the same elements."""
    if _flambeau._is_wrapper(self):
        build, arguments = _dispatch.reduce_wrapper(self, _state(self))
        return build(*arguments)
    build, arguments = _whole_recipe(self, _storage_of(self), _state(self))
    return build(*arguments)


def __deepcopy__(self, memo):
    """A leaf with elements of its own, the same strides, and a copy of the gradient."""
    from copy import deepcopy

    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
        )
    if id(self) in memo:
        return memo[id(self)]
    if _flambeau._is_wrapper(self):
        return _dispatch.copy_wrapper(self, memo)
    storage = None if self.is_meta else deepcopy(_storage_of(self), memo)
    build, arguments = _whole_recipe(self, storage, {})
    if _sparse.is_layout(self):
        arguments = deepcopy(arguments, memo)
    made = memo[id(self)] = build(*arguments)
    if self.grad is not None:
        made.grad = deepcopy(self.grad, memo)
    made.__dict__.update(deepcopy(self.__dict__, memo))
    return made


def _untyped(self):
    """The storage itself, which has no type of elements."""
    return self


def install(tensor, storage):
    """Puts the methods on the classes."""
    for method in (untyped_storage, share_memory_, is_shared, __reduce_ex__, __copy__, __deepcopy__):
        setattr(tensor, method.__name__, method)
    storage.from_file, storage.__getitem__ = staticmethod(_storage_from_file), _storage_item
    storage.untyped = _untyped
    storage.__reduce__, storage.__deepcopy__ = _reduce_storage, _deepcopy_storage
