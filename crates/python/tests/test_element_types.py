"""Types without arithmetic of their own: unsigned integers of more than a byte, floats of eight bits, complex numbers of halves."""

import pathlib
import pickle

import numpy as np
import pytest

import flambeau as fl

FILES = pathlib.Path(__file__).resolve().parents[2] / "nn/tests/pytorch"
UNSIGNED = ["uint16", "uint32", "uint64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
ALL = [*UNSIGNED, *FLOAT8, "complex32"]


@pytest.mark.parametrize("name", ALL)
def test_dtypes_are_objects_of_their_names(name):
    dtype = getattr(fl, name)
    assert repr(dtype) == f"flambeau.{name}" and pickle.loads(pickle.dumps(dtype)) is dtype
    assert fl.ones(3, dtype=dtype).dtype is dtype and fl.ones(2).to(dtype).dtype is dtype
    assert fl.ones(2, dtype=dtype).tolist() == [1, 1] and fl.ones((), dtype=dtype).item() == 1
    assert dtype.itemsize == fl.empty(0, dtype=dtype).element_size()


def test_properties_of_dtypes_are_those_of_pytorch():
    kinds = [(d.is_floating_point, d.is_complex, d.is_signed, d.itemsize) for d in (getattr(fl, name) for name in ALL)]
    assert kinds == [
        (False, False, False, 2),
        (False, False, False, 4),
        (False, False, False, 8),
        (True, False, True, 1),
        (True, False, True, 1),
        (True, False, False, 1),
        (False, True, True, 4),
    ]
    assert fl.complex32.to_real() is fl.float16 and fl.float16.to_complex() is fl.complex32 and fl.chalf is fl.complex32


def test_limits():
    assert [(fl.iinfo(getattr(fl, name)).min, fl.iinfo(getattr(fl, name)).max) for name in UNSIGNED] == [
        (0, 2**16 - 1),
        (0, 2**32 - 1),
        (0, 2**64 - 1),
    ]
    limits = [(i.bits, i.max, i.min, i.eps, i.tiny) for i in map(fl.finfo, (getattr(fl, name) for name in FLOAT8))]
    assert limits == [
        (8, 448.0, -448.0, 0.125, 2.0**-6),
        (8, 57344.0, -57344.0, 0.25, 2.0**-14),
        (8, 2.0**127, 2.0**-127, 1.0, 2.0**-127),
    ]
    assert fl.finfo(fl.complex32).max == 65504
    for name in FLOAT8[:2]:
        dtype, limit = getattr(fl, name), fl.finfo(getattr(fl, name))
        values = [limit.max, limit.min, limit.tiny, limit.smallest_subnormal, 1 + limit.eps]
        assert fl.tensor(values, dtype=dtype).tolist() == values


@pytest.mark.parametrize("name", UNSIGNED)
def test_numpy_shares_unsigned_integers(name):
    largest = np.iinfo(name).max
    array = np.array([[0, 1, largest], [largest - 1, 7, largest // 2 + 1]], dtype=name)
    tensor = fl.from_numpy(array.T)
    assert tensor.dtype is getattr(fl, name) and tensor.tolist() == array.T.tolist() and tensor.stride() == (1, 3)
    assert tensor.numpy().dtype == name and tensor.data_ptr() == array.ctypes.data == tensor.numpy().ctypes.data
    assert fl.tensor(array).tolist() == array.tolist() and fl.as_tensor(array[0, 2]).item() == largest
    through = fl.from_dlpack(array)
    assert through.dtype is tensor.dtype and np.from_dlpack(through).tolist() == array.tolist()
    for other in ("float64", "float32", "int64", "int32", "uint8", "bool"):
        assert fl.from_numpy(array).to(getattr(fl, other)).tolist() == array.astype(other).tolist()
    assert (tensor + tensor).tolist() == (array.T + array.T).tolist() and (tensor * 3).tolist() == (array.T * array.dtype.type(3)).tolist()
    assert (tensor < tensor.flip(0)).tolist() == (array.T < array.T[::-1]).tolist()
    assert fl.sort(tensor, 0).values.tolist() == np.sort(array.T, 0).tolist()


@pytest.mark.parametrize("name", FLOAT8 + ["complex32"])
def test_numpy_has_no_such_type(name):
    with pytest.raises(TypeError, match="unsupported ScalarType|can't convert|no type"):
        fl.ones(2, dtype=getattr(fl, name)).numpy()


@pytest.mark.parametrize("name", ALL)
def test_dlpack_shares_every_type(name):
    tensor = fl.arange(1, 7).reshape(2, 3).to(getattr(fl, name))
    back = fl.from_dlpack(tensor)
    assert back.dtype is tensor.dtype and back.tolist() == tensor.tolist() and back.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("name", ALL)
def test_files_and_pickles_hold_every_type(name, tmp_path):
    tensor = fl.tensor([[0.5, 1, 2], [4, 8, 1]]).to(getattr(fl, name)).t()
    fl.save({"a": tensor, "nested": [tensor.dtype, 3]}, tmp_path / "file")
    loaded = fl.load(tmp_path / "file")
    assert loaded["nested"] == [tensor.dtype, 3]
    for back in (loaded["a"], pickle.loads(pickle.dumps(tensor))):
        assert back.dtype is tensor.dtype and back.tolist() == tensor.tolist()


def test_files_of_pytorch():
    found = {name: fl.load(FILES / f"{name}.pt")["weight"] for name in ("uint16", "uint64", *FLOAT8[::2], "complex32")}
    assert all(str(tensor.dtype) == f"flambeau.{name}" for name, tensor in found.items())
    assert found["uint16"].tolist() == [[1, 65535, 7]] and found["uint64"].tolist() == [2**63, 2**64 - 1]
    assert found["float8_e4m3fn"].view(fl.uint8).tolist() == [0x2A, 0xFE, 0x7F]
    assert found["float8_e8m0fnu"].tolist() == [1.0, 2.0**-127, 2.0**127]
    assert found["complex32"].tolist() == [1 - 2j, 65504j]


@pytest.mark.parametrize("name", ALL)
def test_archives_of_pytorch_are_written(name, tmp_path):
    from flambeau import _archive

    tensor = fl.arange(1, 7).reshape(2, 3).to(getattr(fl, name))[:, 1:]
    with open(tmp_path / "file.pt", "wb") as file:
        _archive.write({"weight": tensor, "dtype": tensor.dtype}, file)
    with open(tmp_path / "file.pt", "rb") as file:
        for found in (_archive.read(file, {}), fl.load(tmp_path / "file.pt")):
            assert found["weight"].dtype is found["dtype"] is tensor.dtype
            assert found["weight"].tolist() == tensor.tolist() and found["weight"].stride() == tensor.stride()


def test_integers_above_those_of_int64():
    largest = fl.tensor([2**63, 2**64 - 1], dtype=fl.uint64)
    assert largest.tolist() == [2**63, 2**64 - 1] and largest[1].item() == int(largest[1]) == 2**64 - 1
    assert float(largest[0]) == 2.0**63 and range(2**64)[largest[0]] == 2**63
    assert (largest == 2**64 - 1).tolist() == [False, True] and (largest > -1).all()
    assert (fl.tensor([1, -1]) < 2**63).all() and not (fl.tensor([2**63 - 1]) == 2**63).any()
    assert fl.full((2,), 2**64 - 1, dtype=fl.uint64).tolist() == [2**64 - 1] * 2
    assert fl.tensor([1.0]).add(2**63).item() == 2.0**63 and (largest * 2).tolist() == [0, 2**64 - 2]
    for refused in (lambda: fl.tensor([2**63]), lambda: fl.full((1,), 2**63), lambda: fl.arange(2**63, 2**63 + 2)):
        with pytest.raises((RuntimeError, ValueError, OverflowError)):
            refused()
    with pytest.raises(OverflowError):
        largest.fill_(2**64)


def test_complex_numbers_of_halves():
    x = fl.tensor([1.5 - 2j, 1e6 + 0j]).chalf()
    assert x.dtype is fl.complex32 and x.tolist()[0] == 1.5 - 2j and x.real.tolist() == [1.5, float("inf")]
    assert x.real.dtype is fl.float16 and fl.view_as_complex(fl.ones(3, 2).half()).dtype is fl.complex32
    assert fl.ones(2).half().to(fl.complex32).tolist() == [1, 1] and (x[:1] + x[:1]).tolist() == [3 - 4j]
    assert x[0].abs().dtype is fl.float16 and x[0].abs().item() == 2.5
    with pytest.raises(NotImplementedError, match="exp.*complex32"):
        x.exp()


def test_what_does_not_promote_is_an_error():
    for a, b in ((fl.uint16, fl.int8), (fl.uint32, fl.uint64), (fl.uint64, fl.complex64), (fl.float8_e5m2, fl.float32)):
        with pytest.raises(RuntimeError):
            fl.promote_types(a, b)
        with pytest.raises((RuntimeError, TypeError)):
            fl.ones(2, dtype=a) * fl.ones(2, dtype=b)
    assert fl.promote_types(fl.uint16, fl.float16) is fl.float16
    assert fl.promote_types(fl.complex32, fl.bfloat16) is fl.complex64


@pytest.mark.parametrize("name", FLOAT8)
def test_floats_of_eight_bits_have_no_arithmetic(name):
    x = fl.ones(3, dtype=getattr(fl, name))
    for refused in (lambda: x + x, lambda: x.exp(), lambda: x.sum(), lambda: x.mean(), lambda: x @ x):
        with pytest.raises((NotImplementedError, RuntimeError), match=name):
            refused()
    assert (x == 1).all() and x.any() and x.sum(dtype=fl.float32).item() == 3 and fl.cat([x, x]).tolist() == [1] * 6


def test_gradients_pass_conversions():
    x = fl.tensor([0.3, 1.0], requires_grad=True)
    y = x.to(fl.float8_e4m3fn).float()
    y.sum().backward()
    assert y.tolist() == [0.3125, 1.0] and x.grad.tolist() == [1, 1]
