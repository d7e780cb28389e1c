"""What a tensor is and how its elements are reached, against NumPy."""

import numpy as np
import pytest

import flambeau as fl


def array(tensor):
    return np.array(tensor.tolist())


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (3, fl.int64),
        (2.5, fl.float32),
        (True, fl.bool),
        ([], fl.float32),
        ([1, 2], fl.int64),
        ([1, 2.5], fl.float32),
        ([True, False], fl.bool),
        ([[1, 2, 3], [4, 5, 6]], fl.int64),
        ([[[1.0], [2.0]]], fl.float32),
        (((1, 2), (3, 4)), fl.int64),
    ],
)
def test_tensor_of_nested_data(data, dtype):
    made = fl.tensor(data)
    assert made.dtype is dtype
    assert tuple(made.shape) == np.array(data).shape
    assert made.tolist() == np.array(data).tolist()


def test_ragged_data_and_other_types_are_refused():
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        fl.tensor([[1, 2], [3]])
    with pytest.raises(TypeError, match="must be real number, not list"):
        fl.tensor([1, [2]])
    with pytest.raises(TypeError):
        fl.tensor("text")
    with pytest.raises(RuntimeError, match="Could not infer dtype of NoneType"):
        fl.tensor([None])
    with pytest.raises(RuntimeError, match="overflow"):
        fl.tensor([300], dtype=fl.uint8)


def test_attributes():
    x = fl.zeros(2, 3, 4, dtype=fl.float64).transpose(0, 2)
    assert x.shape == (4, 3, 2)
    assert isinstance(x.shape, fl.Size)
    assert repr(x.shape) == "flambeau.Size([4, 3, 2])"
    assert x.stride() == (1, 4, 12)
    assert (x.size(-1), x.stride(0), x.dim(), x.ndim, x.numel(), len(x)) == (2, 1, 3, 3, 24, 4)
    assert (x.dtype, x.itemsize, x.nbytes) == (fl.float64, 8, 192)
    assert str(x.device) == "cpu" and repr(x.device) == "device(type='cpu')"
    assert not x.is_contiguous() and x.contiguous().is_contiguous()
    assert x.T.shape == (2, 3, 4) and x.mT.shape == (4, 2, 3)
    assert x.is_floating_point() and x.layout == fl.strided


INDICES = [
    0,
    -1,
    slice(1, None),
    slice(None, None, 2),
    slice(-2, 10),
    None,
    ...,
    (0, 1),
    (slice(None), 2),
    (..., 0),
    (None, ..., None),
    slice(2, 1),
    slice(-1, None, 3),
    (1, ..., slice(0, 2)),
    (slice(0, 2), None, 1),
    [0, 2],
    range(2),
    ([0, 1], [2, 0]),
    (slice(None), [0, 2]),
    ([[0], [1]], [1, 2]),
    (0, [1, 0], slice(None)),
    ([0, 1], slice(None), [1, 1]),
    True,
    (slice(None), slice(None), -1),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_reads_as_numpy(index):
    expected = np.arange(24).reshape(3, 2, 4) if not uses_three(index) else np.arange(36).reshape(3, 3, 4)
    x = fl.arange(expected.size).view(*expected.shape)
    assert x[index].tolist() == expected[index].tolist()


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_writes_as_numpy(index):
    expected = np.arange(24) if not uses_three(index) else np.arange(36)
    expected = expected.reshape(3, -1, 4)
    x = fl.arange(expected.size).view(*expected.shape)
    x[index] = 100
    expected[index] = 100
    assert x.tolist() == expected.tolist()
    values = np.arange(expected[index].size).reshape(expected[index].shape)
    x[index] = fl.tensor(values.ravel().tolist(), dtype=fl.int64).view(values.shape)
    expected[index] = values
    assert x.tolist() == expected.tolist()


def uses_three(index):
    """Whether an index reaches number 2 of the second dimension."""
    parts = index if isinstance(index, tuple) else (index,)
    return len(parts) > 1 and parts[1] in (2, [0, 2], [1, 2], [2, 0])


def test_masks_and_tensors_as_indices():
    expected = np.arange(12).reshape(3, 4)
    x = fl.arange(12).view(3, 4)
    assert x[x % 2 == 0].tolist() == expected[expected % 2 == 0].tolist()
    assert x[fl.tensor(1)].tolist() == expected[1].tolist()
    assert x[fl.tensor([2, 0]), fl.tensor([1, 3])].tolist() == expected[[2, 0], [1, 3]].tolist()
    x[x > 6] = -1
    expected[expected > 6] = -1
    assert x.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("index", "error"),
    [(3, IndexError), ((0, 0, 0), IndexError), ("a", TypeError), (slice(None, None, -1), ValueError), (1.5, IndexError)],
)
def test_wrong_indices(index, error):
    with pytest.raises(error):
        fl.zeros(3, 4)[index]


def test_iteration_and_containment():
    x = fl.arange(6).view(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert [row.tolist() for row in reversed(x)] == [[4, 5], [2, 3], [0, 1]]
    assert 4 in x and 7 not in x
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(fl.tensor(1))


def test_numbers_out_of_tensors():
    assert fl.tensor(3).item() == 3 and isinstance(fl.tensor(3).item(), int)
    assert fl.tensor(True).item() is True
    assert float(fl.tensor([2.5])) == 2.5 and int(fl.tensor(-2.7)) == -2
    assert list(range(5))[fl.tensor(2)] == 2
    assert bool(fl.tensor([0.0])) is False
    assert f"{fl.tensor(1.5):.3f}" == "1.500"
    for wrong in (fl.zeros(2), fl.zeros(0)):
        with pytest.raises(RuntimeError):
            bool(wrong)
        with pytest.raises(RuntimeError):
            wrong.item()
        with pytest.raises(ValueError):
            float(wrong)
    with pytest.raises(TypeError):
        [0][fl.tensor(1.0)]


def test_identity():
    x = fl.ones(3, requires_grad=False)
    assert x.add_(1) is x and x.to(x.dtype) is x and x.contiguous() is x
    p = fl.tensor([1.0, 2.0], requires_grad=True)
    (p * p).sum().backward()
    assert p.grad is p.grad
    kept = p.grad
    kept.note = "kept while the object lives"
    assert p.grad.note == kept.note
    assert hash(p) == hash(p) and p in {p: 1}


def test_the_constructor():
    assert fl.Tensor(2, 3).shape == (2, 3) and fl.Tensor().shape == (0,)
    assert fl.Tensor([[1, 2]]).dtype is fl.float32 and fl.Tensor([[1, 2]]).tolist() == [[1.0, 2.0]]
    x = fl.ones(2)
    assert fl.Tensor(x).data_ptr() == x.data_ptr() and fl.Tensor(fl.tensor(3)).item() == 3
    p = fl.Tensor([1.0, 2.0]).requires_grad_()
    seen = []
    p.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf is p))
    p.sum().backward()
    assert seen == [True]
    with pytest.raises(TypeError):
        fl.Tensor("text", 2)


def test_subclasses_weak_references_and_attributes():
    import weakref

    class Mine(fl.Tensor):
        pass

    x = Mine._make_subclass(Mine, fl.ones(2), True)
    assert isinstance(x, Mine) and isinstance(x, fl.Tensor) and x.requires_grad
    x.sum().backward()
    seen = []
    x.register_hook(seen.append)
    assert x.detach_() is x
    reference = weakref.ref(x)
    assert reference() is x
    del x
    assert reference() is None


def test_printing():
    assert repr(fl.tensor([[1.0, 2.0], [3.0, 4.5]])) == "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]])"
    assert str(fl.tensor([1, 2])) == "tensor([1, 2])"
    assert repr(fl.ones(1, requires_grad=False).requires_grad_()) == "tensor([1.], requires_grad=True)"
