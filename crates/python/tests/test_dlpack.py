"""Exchange by DLPack: capsules of both kinds, used once and freed once; NumPy is the other side."""

import ctypes
import gc
import resource
import threading
import weakref

import numpy as np
import pytest

import flambeau as fl
from flambeau.utils.dlpack import from_dlpack, to_dlpack

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_both_directions(name, shape):
    tensor = fl.arange(int(np.prod(shape, dtype=int))).reshape(shape).to(getattr(fl, name))
    array = np.from_dlpack(tensor)
    assert array.dtype == name and array.shape == shape and array.tolist() == tensor.tolist()
    back = fl.from_dlpack(array)
    assert back.dtype is tensor.dtype and back.shape == tensor.shape and back.tolist() == tensor.tolist()
    if tensor.numel():
        assert tensor.data_ptr() == array.ctypes.data == back.data_ptr()


def test_bfloat16_between_tensors():
    x = fl.ones(3, dtype=fl.bfloat16)
    y = fl.from_dlpack(x)
    y.mul_(2)
    assert y.dtype is fl.bfloat16 and x.tolist() == [2, 2, 2]


def test_strides_and_offsets():
    tensor = fl.arange(120).view(4, 5, 6).permute(2, 0, 1)[1:, ::2]
    array = np.from_dlpack(tensor)
    assert array.tolist() == tensor.tolist() and array.strides == tuple(8 * s for s in tensor.stride())
    part = np.arange(120, dtype=np.int16).reshape(4, 5, 6)[1:, ::2, 3]
    assert fl.from_dlpack(part).tolist() == part.tolist()
    fl.from_dlpack(part).zero_()
    assert not part.any()
    with pytest.raises(BufferError, match="negative"):
        fl.from_dlpack(np.arange(3)[::-1])
    assert fl.from_dlpack(np.arange(3)[2:1:-1]).tolist() == [2]


def test_read_only_in_both_directions():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = fl.from_dlpack(array)
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.add_(1)
    assert not np.from_dlpack(tensor).flags.writeable
    assert np.from_dlpack(fl.ones(2)).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert from_dlpack(tensor.__dlpack__(copy=True)).add_(1).tolist() == [1, 2, 3]


def name_of(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


def test_capsules_are_used_once():
    x = fl.arange(3)
    old, new = to_dlpack(x), x.__dlpack__(max_version=(1, 0))
    assert (name_of(old), name_of(new)) == (b"dltensor", b"dltensor_versioned")
    assert name_of(x.__dlpack__(max_version=(0, 8))) == b"dltensor"
    for capsule, used in ((old, b"used_dltensor"), (new, b"used_dltensor_versioned")):
        y = from_dlpack(capsule)
        assert y.data_ptr() == x.data_ptr() and name_of(capsule) == used
        with pytest.raises(RuntimeError, match="only once"):
            from_dlpack(capsule)
    with pytest.raises(TypeError, match="__dlpack__"):
        fl.from_dlpack([1, 2])


def test_arguments():
    x = fl.arange(4.0)
    assert x.__dlpack_device__() == (1, 0)
    copied = fl.from_dlpack(x, copy=True)
    assert copied.data_ptr() != x.data_ptr() and copied.tolist() == x.tolist()
    assert fl.from_dlpack(x, device="cpu", copy=False).data_ptr() == x.data_ptr()
    assert np.from_dlpack(x, copy=True).ctypes.data != x.data_ptr()
    for wrong in ({"dl_device": (2, 0)}, {"stream": 3}):
        with pytest.raises(BufferError):
            x.__dlpack__(**wrong)
    with pytest.raises(BufferError):
        fl.from_dlpack(x, device="cuda")
    with pytest.raises(BufferError, match="require gradient"):
        fl.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError):
        fl.ones(2, device="meta").__dlpack__()


class Elsewhere:
    """Claims to be on another device, or to know no newer protocol."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def test_other_producers():
    array = np.arange(3)
    assert fl.from_dlpack(Elsewhere(array)).data_ptr() == array.ctypes.data
    with pytest.raises(BufferError, match=r"\(2, 1\)"):
        fl.from_dlpack(Elsewhere(array, (2, 1)))


def test_tensors_are_made_of_other_libraries_tensors():
    array = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    other = Elsewhere(array)
    made = fl.tensor(other)
    assert made.dtype is fl.float32 and made.tolist() == array.tolist() and made.data_ptr() != array.ctypes.data
    assert fl.tensor(other, dtype=fl.int64).tolist() == [[1, 2], [3, 4]]
    assert fl.as_tensor(other).data_ptr() == array.ctypes.data
    assert fl.tensor([Elsewhere(array[0]), Elsewhere(array[1])]).tolist() == array.tolist()
    with pytest.raises(BufferError, match=r"\(2, 1\)"):
        fl.tensor(Elsewhere(array, (2, 1)))


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]


def producer(calls, **fields):
    """A capsule written by hand, of four floats; `calls` gets the thread on which the deleter is called."""
    data = (ctypes.c_float * 4)(1, 2, 3, 4)
    made = Versioned(1, 0, None, DELETER(lambda _: calls.append(threading.get_ident())), 0)
    made.tensor = DLTensor(ctypes.addressof(data), 1, 0, 1, 2, 32, 1, (ctypes.c_int64 * 1)(4), None, 0)
    for name, value in fields.items():
        setattr(made if hasattr(made, name) else made.tensor, name, value)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(made), b"dltensor_versioned", None)
    return capsule, (made, data)


def test_the_deleter_is_called_once():
    calls = []
    capsule, keep = producer(calls)
    tensor = from_dlpack(capsule)
    view = tensor[1:]
    assert tensor.tolist() == [1, 2, 3, 4]
    del tensor, capsule
    assert calls == []
    del view
    assert len(calls) == 1


def test_the_deleter_is_called_on_another_thread():
    calls = []
    capsule, keep = producer(calls)
    box = [from_dlpack(capsule)]
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert len(calls) == 1 and calls[0] != threading.get_ident()


def test_offsets_flags_and_what_is_not_understood():
    calls = []
    two = (ctypes.c_int64 * 1)(2)
    capsule, keep = producer(calls, byte_offset=8, shape=two)
    assert from_dlpack(capsule).tolist() == [3, 4]
    capsule, keep = producer(calls, flags=1)
    with pytest.raises(RuntimeError, match="read-only"):
        from_dlpack(capsule).add_(1)
    assert len(calls) == 2
    for wrong in (
        {"major": 2},
        {"device_type": 2},
        {"code": 3},
        {"bits": 24},
        {"lanes": 4},
        {"byte_offset": 1},
        {"data": None},
        {"shape": None},
        {"ndim": -1},
        {"shape": (ctypes.c_int64 * 1)(-4)},
        {"shape": (ctypes.c_int64 * 1)(2**62)},
    ):
        capsule, keep = producer(calls, **wrong)
        with pytest.raises((BufferError, ValueError, RuntimeError)):
            from_dlpack(capsule)
        assert name_of(capsule) == b"dltensor_versioned", wrong
    assert len(calls) == 2


def test_capsules_that_nobody_takes_keep_nothing():
    class Array(np.ndarray):
        pass

    array = np.ones(4).view(Array)
    gone = weakref.ref(array)
    capsules = [fl.from_numpy(array).__dlpack__(max_version=version) for version in (None, (1, 0))]
    del array
    gc.collect()
    assert gone() is not None
    del capsules
    gc.collect()
    assert gone() is None


def memory():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()


def test_a_hundred_thousand_round_trips_take_no_memory():
    x = fl.arange(1000.0)
    start, before = x.data_ptr(), 0
    for trip in range(100_000):
        x = from_dlpack(x.__dlpack__(max_version=(1, 0) if trip % 2 else None))
        before = memory() if trip == 1000 else before
    assert memory() - before < 2**20 and x.data_ptr() == start
    for trip in range(50_000):
        fl.from_dlpack(np.from_dlpack(x))
        before = memory() if trip == 1000 else before
    assert memory() - before < 2**20


def test_long_chains_of_owners_end_without_recursion():
    x = fl.arange(3)
    for _ in range(20_000):
        x = fl.from_dlpack(np.from_dlpack(x))
    y = np.ones(2).view(type("Array", (np.ndarray,), {}))
    gone = weakref.ref(y)
    for _ in range(20_000):
        y = fl.from_dlpack(np.from_dlpack(fl.from_numpy(y))).numpy().view()
    assert x.tolist() == [0, 1, 2] and gone() is not None
    del x, y
    gc.collect()
    assert gone() is None


def test_what_comes_back_is_of_the_same_storage():
    x = fl.arange(6.0)
    for y in (from_dlpack(to_dlpack(x[1:])), fl.from_dlpack(x[1:]), fl.from_numpy(x.numpy()[1:])):
        version = x._version
        y.add_(0)
        assert x._version == version + 1 and y.storage_offset() == 1
    w = fl.ones(6, requires_grad=True)
    loss = (w * x).sum()
    fl.from_dlpack(x).zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_many_threads_exchange_the_same_elements():
    """Sixteen threads make, exchange, compute with and drop tensors of one array; its owner is let go once, at the end."""

    class Array(np.ndarray):
        pass

    array = np.arange(10_000.0).view(Array)
    gone = weakref.ref(array)
    total = array.sum()
    start = threading.Barrier(16)
    failures = []

    def work(seed):
        start.wait()
        mine = []
        for i in range(60):
            x = fl.from_numpy(array)
            y = fl.from_dlpack(np.from_dlpack(x)) if i % 2 else from_dlpack(x.__dlpack__(max_version=(1, 0)))
            z = fl.from_numpy(y[seed:].numpy())
            mine.append((x * 1, z))
            if (x + 0).sum().item() != total or z[0].item() != seed:
                failures.append((seed, i))
            if len(mine) > 5:
                mine.pop(0)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    del array, threads, work
    fl.ones(1)
    gc.collect()
    assert gone() is None
