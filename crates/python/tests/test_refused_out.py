"""An `out=` that is refused is as it was: its sizes, its elements, its version."""

import itertools

import numpy as np
import pytest

import flambeau as fl

A, B = fl.tensor([[3, 1, 2], [6, 4, 5]]), fl.tensor([[2, 1, 3], [1, 2, 2]])
CALLS = {
    "logical_or": (lambda **out: fl.logical_or(A, B, **out), ["bool"]),
    "gcd": (lambda **out: fl.gcd(A, B, **out), ["int64"]),
    "add": (lambda **out: fl.add(A, B, **out), ["int64"]),
    "exp": (lambda **out: fl.exp(A, **out), ["float32"]),
    "cat": (lambda **out: fl.cat([A, B], **out), ["int64"]),
    "mm": (lambda **out: fl.mm(A.float(), B.float().t(), **out), ["float32"]),
    "cumsum": (lambda **out: fl.cumsum(A, 0, **out), ["int64"]),
    "sum": (lambda **out: fl.sum(A, 1, **out), ["int64"]),
    "gather": (lambda **out: fl.gather(A, 0, fl.zeros(1, 3, dtype=fl.int64), **out), ["int64"]),
    "sort": (lambda **out: fl.sort(A, **out), ["int64", "int64"]),
    "topk": (lambda **out: fl.topk(A, 2, **out), ["int64", "int64"]),
    "max": (lambda **out: fl.max(A, 1, **out), ["int64", "int64"]),
    "median": (lambda **out: fl.median(A, 1, **out), ["int64", "int64"]),
    "kthvalue": (lambda **out: fl.kthvalue(A, 1, **out), ["int64", "int64"]),
    "aminmax": (lambda **out: fl.aminmax(A, dim=1, **out), ["int64", "int64"]),
    "frexp": (lambda **out: fl.frexp(A.float(), **out), ["float32", "int32"]),
}


def read_only(sizes, dtype):
    array = np.full(sizes, 7).astype(dtype)
    array.flags.writeable = False
    return fl.from_numpy(array)


def foreign(sizes, dtype):
    """Memory of NumPy's, which cannot grow."""
    return fl.from_numpy(np.full(sizes, 7).astype(dtype))


def of_another_type(sizes, dtype):
    return fl.full(sizes, 7, dtype=fl.bool if dtype != "bool" else fl.uint8)


def overlapping(sizes, dtype):
    return fl.full((1,), 7, dtype=getattr(fl, dtype)).expand(sizes)


def seen(tensor):
    return tuple(tensor.shape), tensor.stride(), tensor.tolist(), tensor._version, tensor.data_ptr()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spoil", [read_only, foreign, of_another_type, overlapping])
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_changed(name, spoil):
    call, dtypes = CALLS[name]
    results = call()
    results = [results] if isinstance(results, fl.Tensor) else list(results)
    for index, empty in itertools.product(range(len(dtypes)), [False, True]):
        outs = []
        for i, (result, dtype) in enumerate(zip(results, dtypes)):
            sizes = (0,) if empty and i != index else tuple(result.shape)
            fits = fl.full(sizes, 7, dtype=getattr(fl, dtype))
            # What is spoilt has other sizes than the result, of which there are fewer elements, in half of the cases.
            outs.append(spoil((1,) if empty else tuple(result.shape), dtype) if i == index else fits)
        before = [seen(out) for out in outs]
        try:
            call(out=outs[0] if len(outs) == 1 else tuple(outs))
        except (RuntimeError, ValueError, TypeError):
            assert [seen(out) for out in outs] == before
        else:
            # Memory of the right size may be written, and a type may be cast.
            assert spoil is not read_only, "read-only memory was written"


def test_a_division_by_zero_writes_nothing():
    for divide in ("floor_divide_", "remainder_", "fmod_"):
        for divisor in (0, fl.tensor(0), fl.tensor([1, 0, 2])):
            x = fl.tensor([7, 8, 9])
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                getattr(x, divide)(divisor)
            assert x.tolist() == [7, 8, 9] and x._version == 0
    out = fl.tensor([7, 8, 9])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fl.floor_divide(fl.tensor([1, 2, 3]), fl.tensor([1, 0, 1]), out=out)
    assert out.tolist() == [7, 8, 9]
