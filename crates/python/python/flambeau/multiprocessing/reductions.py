"""How tensors are pickled for other processes: by a handle on shared memory, to which they move.

Elements that cannot move, because NumPy or another library has their address, are copied; so are storages without a byte.
A handle holds the memory until it is received, so the sender may let the tensor go, but must live until then. It is received
once: to load the same bytes again is an error.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler

from flambeau import Tensor
from flambeau._flambeau import UntypedStorage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def reduce_storage(storage: UntypedStorage) -> tuple[Any, ...]:
    """A handle on the bytes."""
    if storage.nbytes() == 0:
        return UntypedStorage.frombytes, (b"",)
    if not storage.is_shared():
        storage = (storage if storage.resizable() else storage.clone()).share_memory_()
    return UntypedStorage._open, (storage._send(),)


def reduce_tensor(tensor: Tensor) -> Any:
    """As for any pickle, but that history cannot go along."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
            "process boundaries. If you just want to transfer the data, call detach() on the tensor before serializing "
            "(e.g., putting it on the queue)."
        )
    return tensor.__reduce_ex__(2)


def register() -> None:
    """Has every pickle that goes to another process do so."""
    ForkingPickler.register(UntypedStorage, reduce_storage)
    ForkingPickler.register(Tensor, reduce_tensor)
