"""What a tensor looks at: `data =`, `view(dtype)`, `set_`; and what Python put on a tensor while only the library holds it."""

import gc
import weakref

import numpy as np
import pytest

import flambeau as fl

NAMES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def test_data_takes_values_and_keeps_the_leaf():
    p = fl.ones(3, requires_grad=True)
    seen = []
    p.register_hook(lambda grad: seen.append(grad.tolist()))
    p.data = fl.tensor([1.0, 2.0, 3.0])
    assert p.requires_grad and p.is_leaf and p.tolist() == [1, 2, 3]
    (p * p).sum().backward()
    assert p.grad.tolist() == [2, 4, 6] and seen == [[2, 4, 6]]
    p.data = fl.zeros(2, 3).t()
    assert p.shape == (3, 2) and p.stride() == (1, 3) and p.requires_grad
    p.data = fl.ones(1).expand(4)
    assert p.tolist() == [1] * 4


def test_data_of_the_same_storage_is_a_view():
    p = fl.arange(6.0).view(2, 3).requires_grad_()
    p.data = p.data.t()
    assert p.shape == (3, 2) and p.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_graph_that_saved_other_data_says_so():
    p = fl.ones(3, requires_grad=True)
    y = (p * p).sum()
    p.data = fl.zeros(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_data_that_would_have_to_be_shared_is_refused():
    p, flat = fl.ones(2, requires_grad=True), fl.arange(4.0)
    with pytest.raises(RuntimeError, match="new data shares"):
        p.data = flat[2:]
    view = p.detach()
    with pytest.raises(RuntimeError, match="the tensor shares"):
        p.data = fl.zeros(2)
    assert p.tolist() == view.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="never change"):
        p.data = fl.zeros(2, dtype=fl.float64)
    with pytest.raises(TypeError):
        p.data = 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", NAMES)
def test_bytes_as_another_type(name, other):
    array = np.arange(48).astype(name).reshape(2, 3, 8)
    tensor = fl.tensor(array)
    viewed = tensor.view(getattr(fl, other))
    assert viewed.dtype is getattr(fl, other) and viewed.data_ptr() == tensor.data_ptr()
    np.testing.assert_array_equal(viewed.numpy(), array.view(other))


def test_a_view_of_another_type_is_a_view():
    x = fl.zeros(2, 4, dtype=fl.int16)
    x.view(fl.uint8)[1, 6:] = 255
    assert x.tolist() == [[0] * 4, [0, 0, 0, -1]]
    assert x[:, 2:].view(fl.int32).stride() == (2, 1) and x[:, 2:].view(fl.int32).storage_offset() == 1
    y = fl.ones(4, requires_grad=True)
    assert not y.view(fl.int32).requires_grad


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: fl.ones(()).view(fl.float64), "cannot be 0"),
        (lambda: fl.ones(3).view(fl.float64), r"size\(-1\) must be divisible by 2"),
        (lambda: fl.ones(4, 4)[:, ::2].view(fl.int16), r"stride\(-1\) must be 1"),
        (lambda: fl.ones(4, 4)[1:, 1:3].view(fl.float64), r"offset\(\) must be divisible by 2"),
        (lambda: fl.ones(4, 5)[:, :2].view(fl.float64), "stride .* must be divisible by 2"),
    ],
)
def test_bytes_that_make_no_whole_elements(make, says):
    with pytest.raises(RuntimeError, match=says):
        make()


def test_set():
    x = fl.arange(6)
    y = x[2:4]
    y.set_(x)
    assert y.tolist() == [0, 1, 2, 3, 4, 5]
    y.set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]]
    y.set_(x.untyped_storage(), 2)
    assert y.tolist() == [2, 3, 4, 5]
    assert y.set_().tolist() == [] and x.numel() == 6
    with pytest.raises(RuntimeError, match="for life"):
        y.set_(fl.ones(3, dtype=fl.int64))
    with pytest.raises(RuntimeError):
        y.set_(x.untyped_storage(), 5, (3,))


def test_attributes_outlive_the_object():
    p = fl.ones(2, requires_grad=True)
    (2 * p).sum().backward()
    p.grad.note = ["mine"]
    p.grad.address = p.grad.data_ptr()
    gc.collect()
    assert p.grad.note == ["mine"] and p.grad.address == p.grad.data_ptr()
    p.grad.note.append("too")
    del p.grad.address
    assert p.grad.note == ["mine", "too"] and not hasattr(p.grad, "address")
    held = p.grad
    p.grad = None
    assert held.note == ["mine", "too"]


def test_classes_outlive_the_object():
    class Mine(fl.Tensor):
        pass

    p = fl.ones(2, requires_grad=True)
    p.grad = fl.ones(2).as_subclass(Mine)
    p.grad.note = 1
    gc.collect()
    assert type(p.grad) is Mine and p.grad.note == 1


def test_what_was_kept_goes_with_the_tensor():
    class Value:
        pass

    value = Value()
    there = weakref.ref(value)
    p = fl.ones(2, requires_grad=True)
    p.grad = fl.ones(2)
    p.grad.value = value
    del value
    gc.collect()
    assert there() is p.grad.value
    p.grad = None
    gc.collect()
    assert there() is None


def test_objects_that_nobody_held_leave_nothing():
    class Value:
        pass

    x = fl.ones(2)
    x.value = Value()
    there = weakref.ref(x.value)
    del x
    gc.collect()
    assert there() is None


def test_weak_references():
    gone = []
    x = fl.ones(2)
    ref = weakref.ref(x, lambda _: gone.append(True))
    names = weakref.WeakValueDictionary({"x": x})
    assert ref() is x and names["x"] is x and not gone
    del x
    gc.collect()
    assert ref() is None and gone == [True] and len(names) == 0
