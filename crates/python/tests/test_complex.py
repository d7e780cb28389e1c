"""Complex numbers in Python: dtypes, numbers, attributes, exchange with NumPy and DLPack, files, gradients; values against NumPy."""

import pickle

import flambeau as fl
import numpy as np
import pytest

DTYPES = [(fl.complex64, np.complex64), (fl.complex128, np.complex128)]


def draw(*shape, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(np.complex64)


def test_dtypes():
    assert fl.cfloat is fl.complex64 and fl.cdouble is fl.complex128
    assert fl.complex64.is_complex and not fl.complex64.is_floating_point and fl.complex128.itemsize == 16
    assert fl.complex64.to_real() is fl.float32 and fl.float64.to_complex() is fl.complex128
    assert pickle.loads(pickle.dumps(fl.complex64)) is fl.complex64
    assert fl.finfo(fl.complex64).eps == fl.finfo(fl.float32).eps


def test_numbers_of_python():
    x = fl.tensor([1 + 2j, 3])
    assert x.dtype is fl.complex64 and x.tolist() == [1 + 2j, 3 + 0j] and x[0].item() == 1 + 2j
    assert complex(x[0]) == 1 + 2j and float(x[1]) == 3.0
    with pytest.raises(RuntimeError, match="without overflow"):
        float(x[0])
    assert fl.tensor(1j, dtype=complex).dtype is fl.complex128
    assert (fl.ones(2) * 2j).tolist() == [2j, 2j] and (1j - fl.ones(1)).tolist() == [-1 + 1j]
    assert (fl.ones(1, dtype=fl.float64) + 1j).dtype is fl.complex128
    assert (fl.ones(1, dtype=fl.int32) + np.complex64(1j)).tolist() == [1 + 1j]
    assert fl.full((1,), 1j).dtype is fl.complex64
    x[0] = 5j
    assert x.tolist() == [5j, 3 + 0j]
    with pytest.raises((RuntimeError, TypeError)):
        fl.tensor([1j], dtype=fl.float32)
    assert fl.result_type(fl.ones(1), 1j) is fl.complex64 and not fl.can_cast(fl.complex64, fl.float64)


def test_parts():
    x = fl.tensor([1 + 2j, 3 - 4j])
    assert x.real.tolist() == [1, 3] and x.imag.tolist() == [2, -4]
    x.imag = fl.tensor([7.0, 8.0])
    x.real += 1
    assert x.tolist() == [2 + 7j, 4 + 8j]
    assert x.conj().tolist() == [2 - 7j, 4 - 8j] and not x.is_conj() and not x.is_neg()
    assert fl.view_as_real(x).tolist() == [[2, 7], [4, 8]]
    assert fl.view_as_complex(fl.view_as_real(x)).data_ptr() == x.data_ptr()
    y = fl.tensor([1.0])
    assert y.real is y and y.conj() is y
    with pytest.raises(RuntimeError, match="non-complex"):
        y.imag
    assert fl.tensor([[1j, 2]]).mH.tolist() == [[-1j], [2 - 0j]]
    assert fl.is_complex(x) and x.is_complex()
    assert fl.polar(fl.ones(1), fl.zeros(1)).tolist() == [1 + 0j] and fl.complex(fl.ones(1), fl.ones(1)).tolist() == [1 + 1j]


@pytest.mark.parametrize(("dtype", "of_numpy"), DTYPES)
def test_numpy_shares_memory(dtype, of_numpy):
    array = draw(3, 4).astype(of_numpy)
    x = fl.from_numpy(array.T)
    assert x.dtype is dtype and np.array_equal(x.numpy(), array.T)
    x[0, 0] = 9j
    assert array[0, 0] == 9j
    assert np.array_equal(np.from_dlpack(fl.tensor(array)), array)
    assert fl.from_dlpack(array).data_ptr() == array.ctypes.data
    assert np.array_equal(fl.tensor(array)[:, ::2].numpy(), array[:, ::2])


@pytest.mark.parametrize(("dtype", "of_numpy"), DTYPES)
def test_files_and_pickles(dtype, of_numpy, tmp_path):
    x = fl.tensor(draw(2, 3), dtype=dtype)
    assert fl.equal(pickle.loads(pickle.dumps(x)), x)
    fl.save({"x": x, "t": x.t(), "real": fl.ones(2)}, tmp_path / "file.safetensors")
    found = fl.load(tmp_path / "file.safetensors")
    assert found["x"].dtype is dtype and fl.equal(found["x"], x) and fl.equal(found["t"], x.t())


@pytest.mark.parametrize("name", "exp log sqrt sin cos tan sinh cosh tanh abs square reciprocal".split())
@pytest.mark.parametrize(("dtype", "of_numpy"), DTYPES)
def test_functions_agree_with_numpy(name, dtype, of_numpy):
    array = draw(5, 7, seed=1).astype(of_numpy)
    tolerance = 1e-5 if dtype is fl.complex64 else 1e-13
    assert np.allclose(getattr(fl, name)(fl.tensor(array)).numpy(), getattr(np, name)(array), rtol=tolerance)
    assert np.allclose(getattr(fl, name)(fl.tensor(array).t()).numpy(), getattr(np, name)(array.T), rtol=tolerance)


def test_products_and_sums_agree_with_numpy():
    a, b = draw(4, 6, seed=2), draw(6, 5, seed=3)
    assert np.allclose((fl.tensor(a) @ fl.tensor(b)).numpy(), a @ b, rtol=1e-4)
    assert np.allclose(fl.einsum("ij,jk->ik", fl.tensor(a), fl.tensor(b)).numpy(), a @ b, rtol=1e-4)
    assert np.allclose(fl.tensor(a).sum(1).numpy(), a.sum(1)) and np.allclose(fl.tensor(a).mean().item(), a.mean(), rtol=1e-4)
    assert np.allclose(fl.tensor(a).var(unbiased=False).item(), a.var(), rtol=1e-4)
    assert np.allclose(fl.tensor(a).prod(0).numpy(), a.prod(0), rtol=1e-4)
    assert fl.allclose(fl.tensor(a), fl.tensor(a) + 1e-9j)


def test_gradients():
    z = fl.tensor([3 - 4j, 1 + 1j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    assert np.allclose(z.grad.numpy(), 2 * z.detach().numpy())
    with pytest.raises(RuntimeError, match="real scalar outputs"):
        (z * z).sum().backward()
    (z * z).sum().backward(fl.tensor(1 + 0j))
    w = fl.tensor(draw(3).astype(np.complex128), requires_grad=True)
    assert fl.autograd.gradcheck(lambda w: (w * w).exp().real, w, check_forward_ad=True)
    assert fl.autograd.gradgradcheck(lambda w: w * w.abs(), w)


def test_what_has_no_order_is_refused():
    x = fl.tensor([1j, 2])
    for call in (lambda: x < x, x.max, x.sort, x.floor, x.relu, lambda: x % 2, lambda: x.clamp(0)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call()
