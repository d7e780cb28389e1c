"""What the package holds beside tensors: types, devices, random states, functions written in Python."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import flambeau as fl


def test_dtypes():
    assert fl.float is fl.float32 and fl.long is fl.int64 and fl.zeros(1).dtype is fl.float32
    assert repr(fl.bfloat16) == "flambeau.bfloat16" and fl.bfloat16.itemsize == 2
    assert fl.int8.is_signed and not fl.uint8.is_signed and fl.half.is_floating_point
    assert len({fl.float32, fl.float, fl.float64}) == 2
    assert fl.promote_types(fl.int8, fl.uint8) is fl.int16
    assert fl.result_type(fl.ones(1, dtype=fl.int32), 1.5) is fl.float32
    assert fl.can_cast(fl.float64, fl.float16) and not fl.can_cast(fl.float32, fl.int64)


def test_the_default_dtype():
    assert fl.get_default_dtype() is fl.float32
    fl.set_default_dtype(fl.float64)
    try:
        assert fl.tensor(1.0).dtype is fl.float64 and fl.zeros(1).dtype is fl.float64
    finally:
        fl.set_default_dtype(fl.float32)
    with pytest.raises(TypeError):
        fl.set_default_dtype(fl.int64)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo_as_numpy(name):
    ours, numpy = fl.finfo(getattr(fl, name)), np.finfo(name)
    assert (ours.bits, ours.eps, ours.max, ours.min) == (numpy.bits, numpy.eps, numpy.max, numpy.min)
    assert ours.tiny == numpy.tiny and ours.smallest_subnormal == numpy.smallest_subnormal


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_iinfo_as_numpy(name):
    ours, numpy = fl.iinfo(getattr(fl, name)), np.iinfo(name)
    assert (ours.bits, ours.max, ours.min) == (numpy.bits, numpy.max, numpy.min)
    with pytest.raises(TypeError):
        fl.iinfo(fl.float32)


def test_devices():
    assert fl.device("cuda:1").index == 1 and fl.device("cuda", 1) == fl.device("cuda:1")
    assert fl.device("mps").type == "mps" and fl.device("xpu", 1) == fl.device("xpu:1") != fl.device("cpu")
    assert repr(fl.device("mps")) == "device(type='mps')" and pickle.loads(pickle.dumps(fl.device("hpu:2"))).index == 2
    with pytest.raises(RuntimeError, match="expected a device that is here but got 'mps'"):
        fl.ones(2, device=fl.device("mps"))
    assert fl.device("cpu").type == "cpu" and str(fl.device("meta")) == "meta"
    assert fl.zeros(2, device="meta").is_meta
    assert fl.zeros(2).get_device() == -1
    assert len({fl.device("cpu"), fl.device("cpu")}) == 1


def test_random_numbers_repeat():
    fl.manual_seed(7)
    first = fl.rand(5).tolist()
    state = fl.get_rng_state()
    second = fl.rand(5).tolist()
    assert first != second
    fl.set_rng_state(state)
    assert fl.rand(5).tolist() == second
    assert fl.manual_seed(7).initial_seed() == 7 == fl.initial_seed()
    assert fl.rand(5).tolist() == first
    generator = fl.Generator().manual_seed(7)
    assert fl.rand(5, generator=generator).tolist() == first
    assert generator.set_state(fl.Generator().manual_seed(7).get_state()) is generator
    assert fl.rand(5, generator=generator).tolist() == first
    assert fl.seed() == fl.initial_seed()


def test_sizes():
    size = fl.zeros(2, 3).shape
    assert size.numel() == 6 and size == (2, 3) and isinstance(size[1:], fl.Size) and isinstance(size + (1,), fl.Size)
    assert fl.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    with pytest.raises(RuntimeError):
        fl.broadcast_shapes((2,), (3,))


def test_functions_on_several_tensors():
    a, b = fl.arange(2), fl.arange(3).view(3, 1)
    assert [x.shape for x in fl.broadcast_tensors(a, b)] == [(3, 2), (3, 2)]
    x, y = fl.meshgrid(fl.arange(2), fl.arange(3), indexing="xy")
    expected = np.meshgrid(np.arange(2), np.arange(3))
    assert x.tolist() == expected[0].tolist() and y.tolist() == expected[1].tolist()
    assert fl.atleast_2d(fl.tensor(1)).shape == (1, 1)
    assert [x.dim() for x in fl.atleast_1d(fl.tensor(1), fl.tensor(2))] == [1, 1]


def test_unique_and_nonzero_as_numpy():
    data = np.array([3, 1, 1, 2, 3, 3])
    values, inverse, counts = fl.unique(fl.tensor(data.tolist()), return_inverse=True, return_counts=True)
    for found, expected in zip((values, inverse, counts), np.unique(data, return_inverse=True, return_counts=True)):
        assert found.tolist() == expected.tolist()
    assert fl.tensor(data.tolist()).unique_consecutive().tolist() == [3, 1, 2, 3]
    grid = np.array([[0, 1], [2, 0]])
    assert fl.tensor(grid.tolist()).nonzero().tolist() == np.argwhere(grid).tolist()
    both = fl.nonzero(fl.tensor(grid.tolist()), as_tuple=True)
    assert [x.tolist() for x in both] == [x.tolist() for x in np.nonzero(grid)]


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
def test_norms_as_numpy(p):
    data = np.array([[3.0, -4.0], [1.0, 2.0]])
    x = fl.tensor(data.tolist(), dtype=fl.float64)
    np.testing.assert_allclose(x.norm(p, dim=1).tolist(), np.linalg.norm(data, p, axis=1), rtol=1e-12)
    np.testing.assert_allclose(x.norm().item(), np.linalg.norm(data), rtol=1e-12)


def test_printing_options():
    fl.set_printoptions(precision=2)
    try:
        assert repr(fl.tensor([0.12345])) == "tensor([0.12])"
    finally:
        fl.set_printoptions(profile="default")
    assert repr(fl.tensor([0.12345])) == "tensor([0.1235])"


def test_threads():
    before = fl.get_num_threads()
    fl.set_num_threads(1)
    assert fl.get_num_threads() == 1
    fl.set_num_threads(before)
    with pytest.raises(RuntimeError):
        fl.set_num_threads(0)


def test_results_with_names():
    found = fl.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
    assert found.values.tolist() == [3.0, 4.0] and found.indices.tolist() == [1, 0]
    values, indices = found
    assert values is found[0] and type(found).__name__ == "max"


def test_import_is_light():
    """Nothing heavy comes along, NumPy included."""
    code = "import sys; before = set(sys.modules); import flambeau; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    others = [name for name in loaded if not name.startswith("flambeau")]
    assert len(others) <= 3, others
