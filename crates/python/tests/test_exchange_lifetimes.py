"""Elements outlive their first owner, for every export from the library and import into it; `cargo xtask valgrind` watches.

Each block is above 16 KiB, which goes back to the system at once where nothing is kept (`_set_cache_limit(0)`).
"""

import ctypes
import gc
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import flambeau as fl
from flambeau.utils.dlpack import from_dlpack, to_dlpack

COUNT = 8192
TOTAL = float(sum(range(COUNT)))


@pytest.fixture(autouse=True)
def nothing_kept():
    fl._flambeau._set_cache_limit(0)
    yield
    fl._flambeau._set_cache_limit(1 << 30)


def tensor():
    return fl.arange(COUNT, dtype=fl.float64)


def array():
    return np.arange(COUNT, dtype=np.float64)


EXPORTS = {
    "numpy": lambda: tensor().numpy(),
    "part of numpy": lambda: np.concatenate([tensor().numpy()[:1], tensor().view(2, -1).numpy().reshape(-1)[1:]]),
    "array": lambda: np.asarray(tensor()),
    "dlpack": lambda: np.from_dlpack(tensor()),
    "there and back": lambda: fl.from_numpy(tensor().numpy()).numpy(),
    "storage": lambda: np.frombuffer(tensor().untyped_storage().tobytes()),
}
IMPORTS = {
    "numpy": lambda: fl.from_numpy(array()),
    "view": lambda: fl.from_numpy(array().reshape(2, -1)[:, :]).view(-1),
    "tensor": lambda: fl.as_tensor(array()),
    "dlpack": lambda: fl.from_dlpack(array()),
    "old capsule": lambda: from_dlpack(to_dlpack(tensor())),
    "new capsule": lambda: from_dlpack(tensor().__dlpack__(max_version=(1, 0))),
    "buffer": lambda: fl.frombuffer(bytearray(array().tobytes()), dtype=fl.float64),
    "read-only buffer": lambda: fl.frombuffer(array().tobytes(), dtype=fl.float64),
    "pickle": lambda: pickle.loads(pickle.dumps(tensor())),
    "shared": lambda: tensor().share_memory_(),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_out(name):
    got = EXPORTS[name]()
    gc.collect()
    assert got.sum() == TOTAL


@pytest.mark.parametrize("name", IMPORTS)
def test_in(name):
    got = IMPORTS[name]()
    gc.collect()
    assert got.sum().item() == TOTAL
    part = got[COUNT - 2 :]
    del got
    gc.collect()
    assert part.tolist() == [COUNT - 2, COUNT - 1]


@pytest.mark.parametrize("name", IMPORTS)
def test_released_on_another_thread(name):
    held = [IMPORTS[name]()]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert tensor().sum().item() == TOTAL


def test_capsules_that_nobody_takes():
    for version in (None, (1, 0)):
        held = [tensor().__dlpack__(max_version=version)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        tensor().__dlpack__(max_version=version)
    gc.collect()
    assert tensor().sum().item() == TOTAL


def test_a_deleter_without_the_interpreters_lock():
    class Managed(ctypes.Structure):
        """The part of `DLManagedTensor` before its deleter: data, device, ndim, dtype, shape, strides, offset, context."""

        _fields_ = [("before", ctypes.c_byte * 56), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]

    capsule = to_dlpack(tensor())
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, b"dltensor")
    api.PyCapsule_SetName(capsule, b"used_dltensor")
    deleter = Managed.from_address(address).deleter
    # A call through ctypes gives up the lock.
    thread = threading.Thread(target=deleter, args=(address,))
    thread.start()
    thread.join()
    del capsule
    assert tensor().sum().item() == TOTAL


def doubled(tensors, results):
    x = tensors.get()
    x.mul_(2)
    results.put(x)
    # A sender lives until its message has been received.
    tensors.get()


def test_another_process():
    context = fl.multiprocessing.get_context("fork")
    tensors, results = context.Queue(), context.Queue()
    process = context.Process(target=doubled, args=(tensors, results))
    process.start()
    x = tensor()
    tensors.put(x)
    del x
    got = results.get(timeout=120)
    tensors.put(None)
    assert got.sum().item() == 2 * TOTAL
    del got
    process.join()
    assert process.exitcode == 0 and multiprocessing.active_children() == []
