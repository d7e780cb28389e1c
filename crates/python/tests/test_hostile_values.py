"""Values that mean harm: nests without end, what pretends to be an array, tensors of odd sizes. An error or a value, never a signal."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import default_collate

ERRORS = (ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError, RecursionError, MemoryError, OverflowError, BufferError)


class Inside:
    """A sequence that holds itself."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        if index > 0:
            raise IndexError
        return self


class Long:
    """A sequence that has another length than it says."""

    def __init__(self, says, has):
        self.says, self.has = says, has

    def __len__(self):
        return self.says

    def __getitem__(self, index):
        if index >= self.has:
            raise IndexError
        return 1.0


def holds_itself(rng):
    """A list or tuple that holds itself, directly or a few levels down, perhaps several times."""
    outer = []
    inner = outer
    for _ in range(rng.randint(0, 3)):
        inner = rng.choice([[inner], (inner,), [inner, inner], [1.0, inner]])
    outer.extend([inner] * rng.randint(1, 3))
    return outer


def nested(rng):
    """Nested more deeply than a tensor has dimensions, or than any stack."""
    value = rng.choice([1.0, [], flambeau.ones(1)])
    for _ in range(rng.choice([65, 100, 1000, 100_000])):
        value = rng.choice([[value], [value], (value,)])
    return value


def endless(rng):
    return rng.choice([holds_itself, nested, lambda _: Inside()])(rng)


class Plain(flambeau.Tensor):
    """A subclass, so that operators ask what classes their arguments have."""


CALLS = (
    lambda v: flambeau.tensor(v),
    lambda v: flambeau.as_tensor(v),
    lambda v: flambeau.asarray(v),
    lambda v: flambeau.Tensor(v),
    lambda v: flambeau.ones(3).new_tensor(v),
    lambda v: flambeau.ones(3)[v],
    lambda v: flambeau.ones(3)[v, v],
    lambda v: flambeau.ones(3).__setitem__(v, 1),
    lambda v: flambeau.ones(3).__setitem__(slice(2), v),
    lambda v: flambeau.add(v, 1),
    lambda v: flambeau.ones(2).add(v),
    lambda v: flambeau.ones(2) + v,
    lambda v: flambeau.cat(v),
    lambda v: flambeau.stack(v),
    lambda v: flambeau.ones(v),
    lambda v: flambeau.ones(2).sum(v),
    lambda v: flambeau.broadcast_tensors(v),
    lambda v: flambeau.block_diag(v),
    lambda v: flambeau.einsum("i", v),
    lambda v: flambeau.where(v, 1, 2),
    lambda v: flambeau.isin(v, 1),
    lambda v: flambeau.autograd.backward(v),
    lambda v: flambeau.autograd.grad(v, v),
    lambda v: flambeau.ones(2).as_subclass(Plain).add(v),
    lambda v: flambeau.ones(2).as_subclass(Plain)[v],
    lambda v: flambeau.ones(2).as_subclass(Plain) + v,
)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_nests_without_end_are_errors(number):
    rng = random.Random(number)
    for _ in range(12):
        with pytest.raises(ERRORS):
            CALLS[number](endless(rng))


@pytest.mark.parametrize("walk", [lambda v: default_collate([v, v]), lambda v: flambeau.func.grad(lambda x: flambeau.ones(()))(v)])
def test_helpers_walk_nests_to_an_end(walk):
    rng = random.Random(9)
    for _ in range(12):
        with pytest.raises(ERRORS):
            walk(holds_itself(rng))
        try:
            walk(nested(rng))
        except ERRORS:
            pass


def test_nests_of_sixty_four_levels_are_tensors():
    value = 1.0
    for _ in range(64):
        value = [value]
    assert flambeau.tensor(value).shape == (1,) * 64
    with pytest.raises(ValueError, match="too many dimensions 'list': expected at most 64"):
        flambeau.tensor([value])


def test_sequences_are_as_long_as_they_say():
    rng = random.Random(2)
    for _ in range(50):
        says, has = rng.randint(0, 5), rng.randint(0, 5)
        if has >= says:
            assert flambeau.tensor(Long(says, has)).tolist() == [1.0] * says
        else:
            with pytest.raises((ValueError, IndexError)):
                flambeau.tensor(Long(says, has))
    with pytest.raises((MemoryError, RuntimeError)):
        flambeau.tensor(Long(2**62, 2**62))


@pytest.mark.parametrize("dims", [65, 100, 100_000])
def test_more_than_sixty_four_dimensions_are_refused(dims):
    x, full = flambeau.ones(2), flambeau.ones([1] * 64)
    calls = (
        lambda: flambeau.ones([1] * dims),
        lambda: flambeau.empty([1] * dims, device="meta"),
        lambda: flambeau.ones(1).view([1] * dims),
        lambda: flambeau.ones(1).reshape([1] * dims),
        lambda: flambeau.ones(1).expand([1] * dims),
        lambda: flambeau.ones(1).as_strided([1] * dims, [1] * dims),
        lambda: flambeau.empty_strided([1] * dims, [1] * dims),
        lambda: flambeau.ones(1).repeat([1] * dims),
        lambda: flambeau.ones(1).resize_([1] * dims),
        lambda: x.unflatten(0, [1] * (dims - 1) + [2]),
        lambda: x[(None,) * (dims - 1)],
        lambda: full[None],
        lambda: full.unsqueeze(0),
        lambda: flambeau.stack([full, full]),
        lambda: flambeau.ones(1).untyped_storage()._tensor(flambeau.float32, [1] * dims, [1] * dims, 0),
    )
    for call in calls:
        with pytest.raises((RuntimeError, IndexError), match="64 dimensions|dimension"):
            call()
    assert repr(full).startswith("tensor([[[") and full.sum().item() == 1.0 and full.tolist()


def forged(rng):
    """An array, or what says that it is one, whose description is that of another array which is gone."""

    def description(self):
        return np.arange(float(rng.randint(50, 3000))).__array_struct__

    class Subclass(np.ndarray):
        __array_struct__ = property(description)

        @property
        def base(self):
            return self

    class Pretender:
        __class__ = np.ndarray
        __array_struct__ = property(description)
        shape, dtype, base = (3,), np.dtype(float), None

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return (0.0, 1.0, 2.0)[index]

    class Table:
        __class__ = np.ndarray
        __array_struct__ = np._core._multiarray_umath._ARRAY_API

    return rng.choice([lambda: np.arange(3.0).view(Subclass), Pretender, Table])()


def test_what_pretends_to_be_an_array_is_none():
    rng = random.Random(4)
    kept = []
    for _ in range(200):
        value = forged(rng)
        for take in (flambeau.from_numpy, flambeau.tensor, flambeau.as_tensor, flambeau.Tensor, lambda v: flambeau.ones(3) == v):
            try:
                made = take(value)
            except ERRORS:
                continue
            if isinstance(made, flambeau.Tensor) and made.dtype != flambeau.bool:
                kept.append(made)
    # Memory that is free by now would hold other numbers.
    others = [np.full(rng.randint(3, 3000), 7.0) for _ in range(300)]
    assert others and all(made.tolist() == [0.0, 1.0, 2.0] for made in kept) and kept


def test_memory_of_an_array_lives_as_long_as_the_tensor():
    rng = random.Random(6)
    made = []
    for _ in range(100):
        count = rng.randint(1, 5000)
        array = np.arange(count, dtype=rng.choice([np.float64, np.float32, np.int64, np.int8]))
        expected = array.copy()
        step = rng.randint(1, 3)
        view = array[rng.randint(0, count - 1) :: step]
        made.append((flambeau.from_numpy(view), view.copy()))
        del array, view, expected
    junk = [np.full(rng.randint(1, 5000), -1.0) for _ in range(300)]
    assert junk and all((tensor.numpy() == values).all() for tensor, values in made)


def odd_tensors():
    yield flambeau.tensor(3.0)
    yield flambeau.empty(0)
    yield flambeau.empty(3, 0, 2)[1:]
    yield flambeau.empty(1, 2**31, 2, 0)
    yield flambeau.empty(0, 2**62)
    yield flambeau.empty((), device="meta")
    yield flambeau.empty(2**40, 2**10, device="meta")
    yield flambeau.empty(2**60, device="meta", dtype=flambeau.uint8)
    yield flambeau.ones(1).expand(2**40)
    yield flambeau.ones(1, 1).expand(2**31, 2**31)
    yield flambeau.ones(3).as_strided((1, 2), (2**62, 1))
    yield flambeau.ones(3).as_strided((0, 2), (2**62, 2**62))
    yield flambeau.ones(3).as_strided((1, 1), (2**63 - 1, 2**63 - 1))
    yield flambeau.ones(3).as_strided((3, 2), (1, 0))
    yield flambeau.ones(5).as_strided((0,), (1,), 2**62)
    yield flambeau.ones(2, dtype=flambeau.bfloat16)
    yield flambeau.ones(2, requires_grad=True)
    yield flambeau.from_numpy(np.frombuffer(b"abcd1234", dtype=np.float32))
    yield flambeau.ones([1] * 64)


NAMES = (
    "numpy item stride size dim numel nbytes data_ptr storage_offset is_contiguous element_size shape T mT H itemsize data "
    "__len__ __bool__ __int__ __float__ __index__ __hash__ __dlpack__ __dlpack_device__ __repr__ select narrow view reshape "
    "as_strided unfold transpose swapaxes permute diagonal squeeze unsqueeze expand t flatten unflatten movedim detach "
    "untyped_storage __reduce_ex__ __copy__ __format__ is_same_size get_device type _version"
).split()
ARGUMENTS = ((), (0,), (-1,), (1,), (2**62,), (-(2**63),), (2**63 - 1,), (0, 0), (0, 1), (0, 0, 2**62), (0, 2**62, 1), (0, 2**63 - 1, 1),
             ((0,),), ((2**62, 2),), ((2,), (2**62,)), ((1,), (1,), 2**63 - 1), ((1,), (1,), -1), ("",), (1.5,))  # fmt: skip


def test_odd_tensors_answer_or_refuse():
    for tensor in odd_tensors():
        for name in NAMES:
            for arguments in ARGUMENTS:
                attribute = getattr(flambeau.Tensor, name)
                try:
                    bound = getattr(tensor, name)
                    if callable(attribute) and name != "untyped_storage":
                        bound(*arguments)
                    elif name == "untyped_storage" and tensor.device.type == "cpu":
                        assert len(bound().tobytes()) == bound().nbytes()
                except ERRORS as error:
                    assert "internal error" not in str(error), (tuple(tensor.shape), name, arguments, error)


def test_options_of_printing_are_any_numbers():
    rng = random.Random(1)
    x = flambeau.tensor([1.5, 2e30, -1e-30, float("nan")])
    try:
        for _ in range(60):
            options = {name: rng.choice([0, 1, 1000, 2**16, 10**6, 2**63, 2**64 - 1]) for name in ("precision", "edgeitems", "linewidth", "threshold")}
            flambeau.set_printoptions(**options)
            assert "internal error" not in repr(x) and repr(flambeau.ones(3, 4))
    finally:
        flambeau.set_printoptions(profile="default")


def test_buffers_are_read_inside_only():
    rng = random.Random(8)
    for _ in range(200):
        count, offset = (rng.choice([0, 1, -1, 3, 2**31, 2**63 - 1, -(2**63)]) for _ in range(2))
        dtype = rng.choice([flambeau.uint8, flambeau.float32, flambeau.int64])
        try:
            made = flambeau.frombuffer(bytearray(24), dtype=dtype, count=count, offset=offset)
        except ERRORS as error:
            assert "internal error" not in str(error)
        else:
            assert made.numel() * made.element_size() <= 24


@pytest.mark.skipif(not hasattr(flambeau._flambeau, "__panic_detached"), reason="builds with checks only")
def test_a_panic_without_the_lock_is_an_error():
    for _ in range(3):
        with pytest.raises(RuntimeError, match="internal error.*on purpose"):
            flambeau._flambeau.__panic_detached()


# What a daemon thread does over and over while the interpreter ends.
ENDLESS = {
    "operators": "while True: x + 1; x.sum(); large + 1; flambeau.cat([x] * 50); x.max(0)",
    "hooks": """
def slow(g):
    for _ in range(500): pass
    return g * 2
while True:
    w = flambeau.ones(10, requires_grad=True)
    w.register_hook(slow)
    (w * 2).sum().backward()""",
    "functions": """
class Twice(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        for _ in range(500): pass
        return x * 2
    @staticmethod
    def backward(ctx, g):
        for _ in range(500): pass
        return g * 2
while True:
    w = flambeau.ones(10, requires_grad=True)
    Twice.apply(w).sum().backward()""",
    "subclasses": """
class S(flambeau.Tensor): pass
s = flambeau.ones(5).as_subclass(S)
while True: s + 1; flambeau.add(s, s); s.sum()""",
    "sequences": """
class L:
    def __len__(self): return 3
    def __getitem__(self, i):
        for _ in range(500): pass
        if i > 2: raise IndexError
        return i
while True: flambeau.tensor(L())""",
    "saved": """
def slow(t):
    for _ in range(300): pass
    return t
while True:
    with flambeau.autograd.graph.saved_tensors_hooks(slow, slow):
        w = flambeau.ones(10, requires_grad=True)
        (w * w).sum().backward()""",
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_daemon_threads_let_the_process_end(kind):
    body = "\n".join("    " + line for line in ENDLESS[kind].strip().splitlines())
    program = f"""
import threading, time, flambeau
x, large = flambeau.ones(10), flambeau.ones(100_000)
def run():
{body}
for _ in range(4): threading.Thread(target=run, daemon=True).start()
time.sleep(%s)
"""
    for delay in (0.1, 0.17, 0.23):
        ended = subprocess.run([sys.executable, "-c", program % delay], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, (ended.returncode, ended.stderr[-300:])
