"""How arguments are read: by position and by name, numbers for lists, NumPy's names, what is refused and how that is said."""

import numpy as np
import pytest

import flambeau as fl

X = fl.arange(6, dtype=fl.float32).view(2, 3)
A = np.arange(6, dtype=np.float32).reshape(2, 3)


def same(tensor, expected):
    expected = np.asarray(expected)
    assert tuple(tensor.shape) == expected.shape
    assert str(tensor.dtype) == f"flambeau.{expected.dtype}"
    np.testing.assert_allclose(np.array(tensor.tolist()), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.sum(X, 0),
        lambda: fl.sum(X, [0]),
        lambda: fl.sum(X, (0,)),
        lambda: fl.sum(X, dim=0),
        lambda: fl.sum(X, axis=0),
        lambda: fl.sum(input=X, dim=0),
        lambda: fl.sum(x=X, axis=np.int64(0)),
        lambda: X.sum(0),
        lambda: X.sum(dim=fl.tensor(0)),
        lambda: X.sum(axis=-2, dtype=fl.float32),
        lambda: X.sum(0, dtype="float32"),
    ],
)
def test_one_sum_in_many_forms(call):
    same(call(), A.sum(0))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: X.sum(0, keepdim=True), A.sum(0, keepdims=True)),
        (lambda: X.sum(0, True), A.sum(0, keepdims=True)),
        (lambda: X.sum(axis=1, keepdims=True), A.sum(1, keepdims=True)),
        (lambda: X.sum(None), A.sum()),
        (lambda: X.sum((0, 1)), A.sum()),
        (lambda: X.view(3, 2), A.reshape(3, 2)),
        (lambda: X.view((3, 2)), A.reshape(3, 2)),
        (lambda: X.view([3, -1]), A.reshape(3, 2)),
        (lambda: X.view(size=(3, 2)), A.reshape(3, 2)),
        (lambda: X.view(-1), A.reshape(-1)),
        (lambda: X.reshape(1, 6), A.reshape(1, 6)),
        (lambda: fl.reshape(X, (1, 6)), A.reshape(1, 6)),
        (lambda: X.permute(1, 0), A.T),
        (lambda: fl.permute(X, dims=(1, 0)), A.T),
        (lambda: X.repeat(2, 1), np.tile(A, (2, 1))),
        (lambda: X.flip(1), A[:, ::-1]),
        (lambda: fl.flip(X, [0, 1]), A[::-1, ::-1]),
        (lambda: X.expand(2, 2, 3), np.broadcast_to(A, (2, 2, 3))),
        (lambda: X.squeeze(0), A),
        (lambda: fl.zeros(2, 3), np.zeros((2, 3), np.float32)),
        (lambda: fl.zeros((2, 3), dtype=fl.int64), np.zeros((2, 3), np.int64)),
        (lambda: fl.zeros(X.shape, dtype="int32"), np.zeros((2, 3), np.int32)),
        (lambda: fl.ones([], dtype=float), np.ones((), np.float64)),
        (lambda: fl.full((2,), 7), np.full(2, 7)),
        (lambda: fl.full((2,), 7, dtype=bool), np.full(2, True)),
        (lambda: fl.arange(3), np.arange(3)),
        (lambda: fl.arange(1, 4), np.arange(1, 4)),
        (lambda: fl.arange(1, 2, 0.25, dtype=fl.float64), np.arange(1, 2, 0.25)),
        (lambda: fl.eye(2, 3), np.eye(2, 3, dtype=np.float32)),
        (lambda: fl.add(X, 2), A + 2),
        (lambda: fl.add(2, X), A + 2),
        (lambda: fl.add(X, X, alpha=3), A + 3 * A),
        (lambda: fl.add(X, 2, alpha=3), A + 6),
        (lambda: X.add(np.float64(0.5)), A + np.float32(0.5)),
        (lambda: X.mul(fl.tensor(3)), A * 3),
        (lambda: fl.div(X, 2, rounding_mode="floor"), A // 2),
        (lambda: fl.pow(2, X), 2**A),
        (lambda: fl.where(X > 2, X, 0.0), np.where(A > 2, A, np.float32(0))),
        (lambda: X.where(X > 2, fl.zeros(())), np.where(A > 2, A, np.float32(0))),
        (lambda: fl.clamp(X, 1), A.clip(1, None)),
        (lambda: X.clamp(max=fl.tensor(3.0)), A.clip(None, 3)),
        (lambda: X.std(0), A.std(0, ddof=1)),
        (lambda: X.std(0, correction=0), A.std(0)),
        (lambda: X.var(unbiased=False), A.var()),
        (lambda: X.std(False), A.std()),
        (lambda: fl.cat([X, X], 1), np.concatenate([A, A], 1)),
        (lambda: fl.cat((X, X), axis=0), np.concatenate([A, A], 0)),
        (lambda: fl.stack(tensors=[X, X]), np.stack([A, A])),
        (lambda: X.transpose(0, 1), A.T),
        (lambda: X.max(0).values, A.max(0)),
        (lambda: X.max(dim=1)[1], A.argmax(1)),
        (lambda: X.sort(descending=True).values, -np.sort(-A)),
        (lambda: X.tensor_split(2, 1)[1], np.array_split(A, 2, 1)[1]),
        (lambda: X.split([1, 2], 1)[1], A[:, 1:]),
        (lambda: fl.linalg.vector_norm(X), np.linalg.norm(A)),
        (lambda: X.clone(), A),
        (lambda: X.new_zeros(2), np.zeros(2, np.float32)),
        (lambda: X.to(fl.float64), A.astype(np.float64)),
        (lambda: X.to("cpu", fl.int32), A.astype(np.int32)),
        (lambda: X.to(dtype=fl.uint8), A.astype(np.uint8)),
        (lambda: X.to("int16"), A.astype(np.int16)),
        (lambda: X.to(fl.ones(1, dtype=fl.int8)), A.astype(np.int8)),
        (lambda: X.long(), A.astype(np.int64)),
        (lambda: X.type(fl.float64), A.astype(np.float64)),
    ],
)
def test_calls(call, expected):
    same(call(), expected)


def test_out_is_written_and_returned():
    out = fl.empty(2, 3)
    assert fl.add(X, 1, out=out) is out
    same(out, A + 1)
    assert fl.mul(X, X, out=out) is out
    same(out, A * A)
    assert fl.zeros(2, 3, out=out) is out
    same(out, np.zeros((2, 3), np.float32))


def test_factories_can_ask_for_a_gradient():
    assert fl.ones(2, requires_grad=True).requires_grad
    assert fl.zeros_like(X, requires_grad=True).requires_grad
    assert not fl.rand(2).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        fl.arange(3, requires_grad=True)


REFUSED = [
    (lambda: fl.relu(3), "relu(): argument 'input' (position 1) must be Tensor, not int"),
    (lambda: X.view("x"), "view() received an invalid combination of arguments - got (str), but expected one of:"),
    (lambda: fl.relu(), 'relu() missing 1 required positional arguments: "input"'),
    (lambda: fl.relu(X, X), "relu() takes 1 positional arguments but 2 were given"),
    (lambda: X.view(2, 3, dtype=1), "view() received an invalid combination of arguments - got (int, int, dtype=int), but expected one of:"),
    (lambda: fl.cat([X, 3]), "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not list"),
    (lambda: fl.mm(X, input=X), "mm() got multiple values for argument 'input'"),
    (lambda: X.transpose(0, 1.5), "transpose(): argument 'dim1' (position 2) must be int, not float"),
    (lambda: X.transpose(0, True), "transpose(): argument 'dim1' (position 2) must be int, not bool"),
    (lambda: fl.add(X, "x"), "add() received an invalid combination of arguments - got (Tensor, str), but expected one of:"),
    (lambda: fl.add(X, "x"), " * (Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)"),
    (lambda: X.add(other=None), "add() received an invalid combination of arguments - got (other=NoneType)"),
    (lambda: X.add(None), " * (Number other, Number alpha = 1, *, Tensor out = None)"),
    (lambda: fl.zeros(2, dtype="float31"), "zeros(): argument 'dtype' must be dtype, not str"),
    (lambda: X + "x", "unsupported operand type(s) for +: 'flambeau.Tensor' and 'str'"),
    (lambda: [] < X, "'<' not supported between instances of 'list' and 'flambeau.Tensor'"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused_and_how(call, message):
    with pytest.raises(TypeError) as raised:
        call()
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: X @ X, RuntimeError),
        (lambda: X.sum(5), IndexError),
        (lambda: X[5], IndexError),
        (lambda: X.view(7), RuntimeError),
        (lambda: fl.device("cup"), RuntimeError),
        (lambda: X.to("cup"), RuntimeError),
        (lambda: fl.zeros(-1), RuntimeError),
        (lambda: fl.zeros(2**70), OverflowError),
    ],
)
def test_errors_of_operators(call, error):
    with pytest.raises(error):
        call()


def test_documentation_and_names():
    assert fl.add.__name__ == "add" and "Tensor input, Tensor other" in fl.add.__doc__
    assert fl.Tensor.add.__name__ == "add" and "Tensor input" not in fl.Tensor.add.__doc__
    assert fl.Tensor.__module__ == "flambeau"
