"""Pickling and copying: elements, geometry, sharing, attributes and classes come back as they were."""

import copy
import io
import pickle
import subprocess
import sys

import pytest

import flambeau as fl

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


class Named(fl.Tensor):
    """A subclass, with an attribute."""


class Stateful(fl.Tensor):
    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.kept = state["kept"] + 1


def again(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_type_comes_back(protocol, dtype):
    x = fl.arange(6).view(2, 3).to(getattr(fl, dtype))
    y = again(x, protocol)
    assert y.dtype is x.dtype and y.shape == x.shape and y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()


def test_geometry_comes_back():
    for x in (
        fl.tensor(3.5),
        fl.zeros(0, 3),
        fl.arange(24).view(2, 3, 4).permute(2, 0, 1)[1:, :, ::2],
        fl.ones(1, 3).expand(4, 3),
        fl.zeros(2, 3, device="meta"),
    ):
        y = again(x)
        assert (y.shape, y.stride(), y.storage_offset(), y.device) == (x.shape, x.stride(), x.storage_offset(), x.device)
        assert x.is_meta or y.tolist() == x.tolist()


def test_leaves_and_history():
    x = fl.ones(2, requires_grad=True)
    x.grad = fl.ones(2)
    assert again(x).requires_grad and again(x).grad is None
    y = again(x * 2)
    assert y.is_leaf and y.requires_grad and y.tolist() == [2, 2]


def test_tensors_that_share_share_again():
    x = fl.arange(6.0)
    a, b, c = again([x, x[2:], x])
    assert a is c
    a[3] = 9
    assert b.tolist() == [2, 9, 4, 5]
    assert a.untyped_storage() is b.untyped_storage() and a.untyped_storage() != x.untyped_storage()


def test_attributes_and_subclasses():
    x = fl.ones(2)
    x.name = "one"
    assert again(x).name == "one" and type(again(x)) is fl.Tensor
    y = Tensor = fl.Tensor._make_subclass(Named, fl.ones(3), True)
    y.about = {"self": [1]}
    z = again(y)
    assert type(z) is Named and z.about == {"self": [1]} and z.requires_grad and z.tolist() == [1, 1, 1]
    w = Tensor._make_subclass(Stateful, fl.ones(1))
    w.kept, w.lost = 1, 2
    assert again(w).kept == 2 and not hasattr(again(w), "lost")


def test_modules_and_small_values():
    layer = fl.nn.Linear(3, 2)
    other = again(layer)
    assert isinstance(other.weight, fl.nn.Parameter) and other.weight.tolist() == layer.weight.tolist()
    values = [fl.float32, fl.bool, fl.device("cuda:1"), fl.strided, fl.channels_last, fl.Size([1, 2])]
    assert again(values) == values and again(fl.int64) is fl.int64 and type(again(fl.Size([1]))) is fl.Size


def test_another_process_reads_it():
    data = pickle.dumps(fl.arange(4.0).view(2, 2).t())
    code = "import sys, pickle; x = pickle.loads(sys.stdin.buffer.read()); print(x.tolist(), x.stride())"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "[[0.0, 2.0], [1.0, 3.0]] (1, 2)"


def test_damaged_pickles_are_errors():
    data = pickle.dumps(fl.arange(4.0))
    for end in range(1, len(data), 7):
        with pytest.raises(Exception):
            pickle.loads(data[:end])
    storage = fl.ones(2).untyped_storage()
    with pytest.raises(RuntimeError, match="storage"):
        storage._tensor(fl.float32, [3], [1], 0)


def test_copy_shares_elements():
    x = fl.arange(3.0, requires_grad=True)
    x.name = ["one"]
    y = copy.copy(x)
    assert y is not x and y.data_ptr() == x.data_ptr() and y.requires_grad and y.name is x.name
    z = copy.copy(x * 2)
    assert z.is_leaf


def test_deepcopy():
    x = fl.arange(6.0).view(2, 3).t().requires_grad_()
    x.grad = fl.ones(3, 2)
    x.about = [1]
    y = copy.deepcopy(x)
    assert (y.tolist(), y.stride(), y.requires_grad, y.is_leaf) == (x.tolist(), x.stride(), True, True)
    assert y.data_ptr() != x.data_ptr() and y.grad.tolist() == x.grad.tolist() and y.grad is not x.grad
    assert y.about == [1] and y.about is not x.about
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    named = fl.Tensor._make_subclass(Named, fl.ones(2))
    assert type(copy.deepcopy(named)) is Named


def test_deepcopy_keeps_what_is_shared():
    x = fl.arange(6.0)
    a, b, c = copy.deepcopy([x, x[1:3], x])
    assert a is c and b.data_ptr() == a.data_ptr() + 4
    layer = fl.nn.Linear(2, 2)
    layer.also = layer.weight
    other = copy.deepcopy(layer)
    assert other.also is other.weight is not layer.weight


def test_storages():
    x = fl.arange(3, dtype=fl.int16)
    storage = x.untyped_storage()
    assert storage.nbytes() == len(storage) == 6 and storage.data_ptr() == x.data_ptr() and storage.resizable()
    assert storage is x[1:].untyped_storage() and storage == x.detach().untyped_storage()
    assert storage.tobytes() == b"\0\0\1\0\2\0" and storage.clone() != storage
    file = io.BytesIO()
    pickle.dump(storage, file)
    assert pickle.loads(file.getvalue()).tobytes() == storage.tobytes()
