"""Exchange with NumPy: the same memory on both sides, lifetimes, what is refused, what is copied."""

import gc
import mmap
import weakref

import numpy as np
import pytest

import flambeau as fl

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_types_and_shapes_in_both_directions(name, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(name)
    tensor = fl.from_numpy(array)
    assert tensor.dtype is getattr(fl, name) and tuple(tensor.shape) == shape
    assert tensor.tolist() == array.tolist()
    back = tensor.numpy()
    assert isinstance(back, np.ndarray) and back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back, array)
    if array.size:
        assert tensor.data_ptr() == array.ctypes.data == back.ctypes.data


def test_writes_are_seen_on_the_other_side():
    array = np.zeros((2, 3), dtype=np.float32)
    tensor = fl.from_numpy(array)
    array[1, 2] = 5
    assert tensor[1, 2].item() == 5
    tensor.add_(1)
    assert array.tolist() == [[1, 1, 1], [1, 1, 6]]
    view = fl.zeros(4, dtype=fl.int64)[1:3]
    view.numpy()[:] = 7
    assert view.tolist() == [7, 7]


@pytest.mark.parametrize(
    "index",
    [np.s_[::2], np.s_[:, ::3], np.s_[1], np.s_[..., None], np.s_[1:1], np.s_[:, 2:, :1]],
)
def test_strided_views(index):
    array = np.arange(120, dtype=np.int32).reshape(4, 5, 6).transpose(2, 0, 1)[index]
    tensor = fl.from_numpy(array)
    assert tensor.tolist() == array.tolist()
    assert [s * 4 for s in tensor.stride()] == list(array.strides)
    again = tensor.numpy()
    assert again.strides == array.strides and again.tolist() == array.tolist()


def test_a_broadcast_array_is_read_only():
    tensor = fl.from_numpy(np.broadcast_to(np.array([1.0, 2.0]), (3, 2)))
    assert tensor.stride() == (0, 1) and tensor.sum().item() == 9
    with pytest.raises(RuntimeError, match="read-only"):
        tensor[0].add_(1)


def test_the_tensor_keeps_the_array():
    class Array(np.ndarray):
        pass

    array = np.arange(1000.0).view(Array)
    gone = weakref.ref(array)
    tensor = fl.from_numpy(array)
    part = tensor[10:20]
    del array, tensor
    gc.collect()
    assert gone() is not None and part.tolist() == list(np.arange(10.0, 20.0))
    del part
    gc.collect()
    assert gone() is None


def test_the_array_keeps_the_storage():
    tensor = fl.arange(1000, dtype=fl.float64)
    gone = weakref.ref(tensor)
    array = tensor.numpy()[5:8]
    del tensor
    fl.zeros(1000, dtype=fl.float64)
    assert gone() is None and array.tolist() == [5, 6, 7]


def test_a_storage_that_an_array_looks_at_stays_where_it_is():
    tensor = fl.arange(3)
    array = tensor.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        fl.add(fl.ones(100, dtype=fl.int64), 1, out=tensor)
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.resize_(100000)
    assert array.tolist() == [0, 1, 2] and tensor.tolist() == [0, 1, 2]


def test_read_only_arrays_stay_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = fl.from_numpy(array)
    for write in (lambda: tensor.add_(1), lambda: tensor.zero_(), lambda: tensor.__setitem__(0, 5.0)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    with pytest.raises(RuntimeError, match="read-only"):
        fl.add(fl.ones(3, dtype=fl.float64), 1, out=tensor)
    assert array.tolist() == [0, 1, 2]
    assert (tensor + 1).tolist() == [1, 2, 3]
    assert not tensor.numpy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.numpy()[0] = 1
    assert fl.tensor(array).add_(1).tolist() == [1, 2, 3]


def test_what_no_tensor_can_be():
    with pytest.raises(ValueError, match="negative"):
        fl.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        fl.from_numpy(np.arange(3, dtype=">i4"))
    with pytest.raises(ValueError, match="byte order"):
        fl.tensor(np.arange(3, dtype=">f8"))
    with pytest.raises(ValueError, match="multiple of the element byte size"):
        fl.from_numpy(np.zeros(3, dtype=[("a", "i4"), ("b", "i1")])["a"])
    misaligned = np.frombuffer(bytearray(13), dtype=np.uint8)[1:13].view(np.int32)
    with pytest.raises(ValueError, match="aligned"):
        fl.from_numpy(misaligned)
    assert fl.tensor(misaligned).tolist() == [0, 0, 0]
    for array in (
        np.array(["a"]),
        np.array([None]),
        np.zeros(2, dtype="m8[s]"),
        np.zeros(2, dtype="V3"),
        np.zeros(2, dtype=[("a", "i4")]),
    ):
        with pytest.raises(TypeError, match="can't convert np.ndarray of type"):
            fl.from_numpy(array)
    for other in ([1, 2], 3, np.float64(1), fl.ones(1), None):
        with pytest.raises(TypeError, match="expected np.ndarray"):
            fl.from_numpy(other)


def test_tensors_that_give_no_array():
    x = fl.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x)
    with fl.no_grad():
        assert x.numpy().ctypes.data == x.data_ptr()
    assert x.numpy(force=True).tolist() == [1, 1] and x.detach().numpy().ctypes.data == x.data_ptr()
    with pytest.raises(TypeError, match="meta"):
        fl.ones(2, device="meta").numpy()
    with pytest.raises(TypeError, match="unsupported ScalarType"):
        fl.ones(2, dtype=fl.bfloat16).numpy()


def test_tensor_copies_and_as_tensor_does_not():
    array = np.arange(4, dtype=np.float32)
    assert fl.tensor(array).data_ptr() != array.ctypes.data
    assert fl.as_tensor(array).data_ptr() == array.ctypes.data
    assert fl.as_tensor(array, dtype=fl.float64).tolist() == [0, 1, 2, 3]
    made = fl.tensor(array, dtype=fl.int64, requires_grad=False)
    assert made.dtype is fl.int64 and made.tolist() == [0, 1, 2, 3]
    assert fl.tensor(array, requires_grad=True).requires_grad
    assert fl.tensor([np.array([1.0, 2.0]), np.array([3.0, 4.0])]).tolist() == [[1, 2], [3, 4]]
    assert fl.tensor([np.array(1.5), np.float32(2.5), 3]).tolist() == [1.5, 2.5, 3]
    assert fl.tensor(np.float64(2)).item() == 2 and fl.tensor(np.int32(3)).dtype is fl.int32


def test_array_with_dtype_and_copy():
    tensor = fl.arange(3, dtype=fl.float32)
    assert np.asarray(tensor).ctypes.data == tensor.data_ptr()
    assert np.asarray(tensor, dtype=np.int64).tolist() == [0, 1, 2]
    assert np.array(tensor).ctypes.data != tensor.data_ptr()
    assert np.array(tensor, copy=False).ctypes.data == tensor.data_ptr()
    with pytest.raises(ValueError, match="copy"):
        np.array(tensor, dtype=np.int64, copy=False)
    assert np.stack([tensor, tensor]).shape == (2, 3)
    assert np.concatenate([tensor, np.ones(1, dtype=np.float32)]).tolist() == [0, 1, 2, 1]


def test_arithmetic_with_numpy():
    tensor, array = fl.ones(3), np.ones(3, dtype=np.float32)
    for made in (np.float32(2) * tensor, tensor * np.float32(2), np.float64(2) * tensor):
        assert isinstance(made, fl.Tensor) and made.tolist() == [2, 2, 2]
    assert isinstance(np.sin(tensor), fl.Tensor)
    for made in (tensor + array, tensor == array, tensor**array, np.add(tensor, tensor), tensor @ array):
        assert isinstance(made, fl.Tensor)
    assert (tensor + array).tolist() == [2, 2, 2] and (tensor == array).tolist() == [True] * 3
    assert (tensor > array).tolist() == [False] * 3 and (array == tensor).tolist() == [True] * 3
    with pytest.raises(TypeError):
        array + tensor  # As in PyTorch: NumPy leaves the answer to the tensor, which takes numbers and tensors.


def test_asarray():
    array = np.arange(3, dtype=np.float32)
    assert fl.asarray(array).data_ptr() == array.ctypes.data
    assert fl.asarray(array, copy=True).data_ptr() != array.ctypes.data
    assert fl.asarray(array, dtype=fl.float64).dtype is fl.float64
    with pytest.raises(ValueError, match="alias or copy"):
        fl.asarray(array, dtype=fl.float64, copy=False)
    with pytest.raises(ValueError, match="alias or copy"):
        fl.asarray([1, 2], copy=False)
    assert fl.asarray([1, 2]).tolist() == [1, 2] and fl.asarray(3.5).item() == 3.5
    x = fl.ones(2)
    assert fl.asarray(x) is x and fl.asarray(x, copy=True) is not x
    assert fl.asarray(x, requires_grad=True).requires_grad
    assert fl.asarray(bytearray(b"\x01\x02"), dtype=fl.uint8).tolist() == [1, 2]


def test_frombuffer():
    data = bytearray(np.arange(4, dtype=np.int32).tobytes())
    tensor = fl.frombuffer(data, dtype=fl.int32)
    assert tensor.tolist() == [0, 1, 2, 3]
    tensor[0] = 9
    assert data[0] == 9
    with pytest.raises(BufferError):
        data.extend(b"more")
    del tensor
    data.extend(b"more")
    assert fl.frombuffer(data, dtype=fl.int32, offset=4, count=2).tolist() == [1, 2]
    frozen = fl.frombuffer(bytes(8), dtype=fl.float64)
    with pytest.raises(RuntimeError, match="read-only"):
        frozen.add_(1)
    with mmap.mmap(-1, 4096) as mapped:
        x = fl.frombuffer(mapped, dtype=fl.float32)
        x.fill_(1)
        assert mapped[:4] == np.float32(1).tobytes()
        del x
    with pytest.raises(ValueError, match="must not be 0"):
        fl.frombuffer(b"", dtype=fl.uint8)
    with pytest.raises(ValueError, match="greater than actual"):
        fl.frombuffer(bytes(8), dtype=fl.float32, count=3)
    with pytest.raises(ValueError, match="multiple of element size"):
        fl.frombuffer(bytes(7), dtype=fl.float32)
    with pytest.raises(ValueError, match="offset"):
        fl.frombuffer(bytes(8), dtype=fl.float32, offset=8)
    with pytest.raises(ValueError, match="offset"):
        fl.frombuffer(bytes(8), dtype=fl.float32, offset=-4)
    with pytest.raises(TypeError):
        fl.frombuffer([1, 2], dtype=fl.float32)


def test_gradients_through_shared_elements():
    array = np.array([1.0, 2.0, 3.0])
    x = fl.from_numpy(array).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.numpy().tolist() == [2, 4, 6]


def test_arrays_from_other_threads():
    """Storages that hold arrays are dropped on threads that know nothing of Python's lock."""
    import threading

    class Array(np.ndarray):
        pass

    arrays = [np.ones(50_000).view(Array) for _ in range(20)]
    gone = [weakref.ref(array) for array in arrays]

    def work(mine):
        for array in mine:
            assert (fl.from_numpy(array) * 2).sum().item() == 100_000

    threads = [threading.Thread(target=work, args=(arrays[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del threads, arrays, work
    fl.ones(1)
    gc.collect()
    assert [ref() is None for ref in gone] == [True] * 20


def test_bytes_that_are_no_bools_are_true():
    array = np.array([2, 0, 255, 1, 4], dtype=np.uint8).view(bool)
    x = fl.from_numpy(array)
    expected = [True, False, True, True, True]
    assert x.tolist() == expected and (x == True).tolist() == expected and (~x).tolist() == [not value for value in expected]  # noqa: E712
    assert x.sum().item() == 4 and x.to(fl.int64).tolist() == [1, 0, 1, 1, 1]
    assert fl.arange(5)[x].tolist() == [0, 2, 3, 4] and fl.where(x, 1, 0).tolist() == [1, 0, 1, 1, 1]
