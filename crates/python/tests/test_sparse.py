"""Sparse tensors: PyTorch's names and behaviour, against strided tensors and SciPy."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import flambeau as fl
from flambeau import nn

np = pytest.importorskip("numpy")

LAYOUTS = [fl.sparse_coo, fl.sparse_csr, fl.sparse_csc, fl.sparse_bsr, fl.sparse_bsc]


def holey(*sizes, seed=0):
    """A strided tensor in which two of three elements are 0."""
    draw = np.random.default_rng(seed)
    return fl.from_numpy(np.where(draw.random(sizes) < 1 / 3, draw.integers(1, 9, sizes), 0).astype(np.float64))


def convert(dense, layout):
    blocked = layout in (fl.sparse_bsr, fl.sparse_bsc)
    return dense.to_sparse(layout=layout, blocksize=(2, 3) if blocked else None)


def test_coordinates():
    i, v = fl.tensor([[0, 1, 1], [2, 0, 2]]), fl.tensor([3.0, 4.0, 5.0])
    s = fl.sparse_coo_tensor(i, v, (2, 3))
    assert s.is_sparse and s.layout is not fl.strided and s.layout == fl.sparse_coo
    assert s.to_dense().tolist() == [[0, 0, 3], [4, 0, 5]]
    assert (s.sparse_dim(), s.dense_dim(), s._nnz(), s.is_coalesced()) == (2, 0, 3, False)
    with pytest.raises((RuntimeError, ValueError), match="uncoalesced"):
        s.indices()
    assert s.coalesce().indices().tolist() == i.tolist() and s._values().tolist() == [3, 4, 5]
    assert fl.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0]).shape == (2, 3)
    assert fl.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]
    hybrid = fl.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert hybrid.dense_dim() == 1 and hybrid.to_dense().tolist() == [[1, 2], [0, 0], [3, 4]]
    assert "nnz=3" in repr(s) and "layout=flambeau.sparse_coo" in repr(s).replace("torch.", "flambeau.")


def test_compressed_rows():
    s = fl.sparse_csr_tensor([0, 2, 4], [0, 1, 0, 1], [1, 2, 3, 4], dtype=fl.float64)
    assert s.is_sparse_csr and not s.is_sparse and s.dtype == fl.float64
    assert s.crow_indices().tolist() == [0, 2, 4] and s.col_indices().tolist() == [0, 1, 0, 1]
    assert s.values().tolist() == [1, 2, 3, 4] and s.t().layout == fl.sparse_csc
    assert s.t().ccol_indices().tolist() == [0, 2, 4]
    for dtype in (fl.int32, fl.int64):
        made = fl.sparse_csr_tensor(fl.tensor([0, 1, 2], dtype=dtype), fl.tensor([4, 1], dtype=dtype), [1.0, 2.0])
        assert made.shape == (2, 5) and made.col_indices().dtype == dtype
    for bad in (([0, 2, 5], [0, 1, 0, 1]), ([0, 2, 4], [0, 9, 0, 1]), ([0, 2, 4], [1, 0, 0, 1])):
        with pytest.raises((RuntimeError, ValueError, IndexError)):
            fl.sparse_csr_tensor(*bad, [1.0, 2.0, 3.0, 4.0], (2, 2))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_one_element_is_a_number(layout):
    blocked = layout in (fl.sparse_bsr, fl.sparse_bsc)
    x = fl.tensor([[2.5]]).to_sparse(layout=layout, blocksize=(1, 1) if blocked else None)
    assert x.item() == 2.5 and float(x) == 2.5 and bool(x) and int(x) == 2
    with pytest.raises(RuntimeError, match="6 elements"):
        convert(fl.ones(2, 3), layout).item()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_operators_agree_with_strided_ones(layout):
    a, b = holey(4, 6), holey(4, 6, seed=1)
    x, y, dense = convert(a, layout), convert(b, layout), fl.arange(24.0, dtype=fl.float64).reshape(4, 6) + 1
    assert fl.equal(x.to_dense(), a) and x.layout == layout
    cases = [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x * dense, a * dense), (x / dense, a / dense), (x * 3, a * 3), (x / 2, a / 2),
        (-x, -a), (x.sin(), a.sin()), (x.sqrt(), a.sqrt()), (x**2, a**2), (x.abs(), a.abs()), (dense + x, dense + a),
        (x @ dense.t(), a @ dense.t()), (dense.t() @ x, dense.t() @ a), (x @ y.t(), a @ b.t()), (x.t(), a.t()), (x @ dense[0], a @ dense[0]),
        (x.sum(), a.sum()), (fl.sparse.sum(x, 0), a.sum(0)), (fl.sparse.sum(x, [0, 1]), a.sum()), (fl.cat([x, y]), fl.cat([a, b])),
        (fl.stack([x, y]), fl.stack([a, b])), (x[1], a[1]), (x.float(), a.float()), (x.clone(), a), (x.detach(), a),
        (fl.zeros_like(x), fl.zeros_like(a)), (x.norm(), a.norm()), (fl.sparse.mm(x, dense.t()), a @ dense.t()),
        (fl.sparse.addmm(dense[:, :4], x, dense.t(), beta=2.0, alpha=3.0), dense[:, :4] * 2 + (a @ dense.t()) * 3),
        (nn.functional.linear(dense, x), dense @ a.t()),
    ]  # fmt: skip
    for number, (found, expected) in enumerate(cases):
        assert fl.allclose(found.to_dense(), expected, rtol=1e-6), number
    if layout not in (fl.sparse_bsr, fl.sparse_bsc):
        assert fl.equal(x[[3, 0, 0]].to_dense(), a[[3, 0, 0]]) and fl.equal(x[1:3].to_dense(), a[1:3])
        assert fl.equal(x[fl.tensor([True, False, True, True])].to_dense(), a[[0, 2, 3]])
    with pytest.raises((NotImplementedError, RuntimeError), match="to_dense"):
        x.exp()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradients(layout):
    a = holey(4, 6)
    x, w = convert(a, layout).requires_grad_(), fl.ones(6, 2, dtype=fl.float64, requires_grad=True)
    assert x.requires_grad and x.is_leaf and x.grad is None
    (x @ w).sum().backward()
    assert x.grad.layout == layout and fl.equal(x.grad.values() if layout != fl.sparse_coo else x.grad._values(), fl.full_like(x._values(), 2.0))
    assert fl.equal(w.grad, a.sum(0).unsqueeze(1).expand(6, 2))
    (found,) = fl.autograd.grad((x * x).sum(), x)
    assert fl.equal(found.to_dense(), 2 * a)
    x.grad = None
    assert x.grad is None


def test_functions_of_the_module():
    a = holey(4, 6)
    x, dense = a.to_sparse_csr(), fl.rand(6, 3, dtype=fl.float64)
    hidden = a.masked_fill(a == 0, -float("inf"))
    soft = fl.sparse.softmax(a.to_sparse(), 1).to_dense()
    assert fl.allclose(soft, hidden.softmax(1).nan_to_num(0.0))
    assert fl.allclose(fl.sparse.log_softmax(a.to_sparse(), 0)._values().exp(), fl.sparse.softmax(a.to_sparse(), 0)._values())
    assert fl.allclose(fl.sparse.mm(x, dense, "mean"), (a @ dense) / (a != 0).sum(1, keepdim=True).clamp(min=1))
    sampled = fl.sparse.sampled_addmm(x, fl.ones(4, 3, dtype=fl.float64), dense.t(), beta=2.0, alpha=0.5)
    assert fl.allclose(sampled.to_dense(), (2 * a + 0.5 * fl.ones(4, 3, dtype=fl.float64) @ dense.t()) * (a != 0))
    diagonal = fl.sparse.spdiags(fl.tensor([[1.0, 2.0, 3.0]]), fl.tensor([1]), (3, 3))
    assert diagonal.to_dense().tolist() == [[0, 2, 0], [0, 0, 3], [0, 0, 0]]
    with fl.sparse.check_sparse_tensor_invariants():
        assert fl.sparse.check_sparse_tensor_invariants.is_enabled()
    assert fl.equal(dense.new_ones(4, 6).sparse_mask(a.to_sparse()).to_dense(), (a != 0).double())
    assert fl.hspmm(x, dense).dense_dim() == 1 and fl.smm(x, dense).is_sparse
    s = a.to_sparse().clone().sparse_resize_((5, 7), 2, 0)
    assert s.shape == (5, 7) and fl.equal(s.to_dense()[:4, :6], a)


def test_written_indices_are_errors():
    s = holey(4, 6).to_sparse().coalesce()
    s.indices()[0, 0] = 10**9
    for use in (lambda: s.to_dense(), lambda: s @ fl.ones(6, 1, dtype=fl.float64), lambda: s * s):
        with pytest.raises(IndexError, match="out of bounds"):
            use()


def test_what_reads_memory_refuses():
    s = holey(4, 6).to_sparse()
    for use in (s.numpy, s.untyped_storage, lambda: np.asarray(s), lambda: fl.from_dlpack(s), lambda: s.view(24), lambda: s.item()):
        with pytest.raises((TypeError, RuntimeError, NotImplementedError, ValueError, BufferError)):
            use()
    empty = fl.zeros(0, 3).to_sparse()
    with pytest.raises((TypeError, RuntimeError)):
        empty.numpy()
    assert fl.equal(s.data.to_dense(), s.to_dense())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_copies_and_files(layout, tmp_path):
    x = convert(holey(4, 6), layout)
    uneven = {"x": x, "more": [x, 3], "dense": fl.ones(2)}
    fl.save(uneven, tmp_path / "file.safetensors")
    loaded = fl.load(tmp_path / "file.safetensors")
    copies = [copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded["x"], loaded["more"][0]]
    fl.save({"x": x}, tmp_path / "flat.safetensors")
    copies.append(fl.load(tmp_path / "flat.safetensors")["x"])
    for made in copies:
        assert made.layout == layout and fl.equal(made.to_dense(), x.to_dense())
    assert copy.deepcopy(x.requires_grad_()).requires_grad


def test_archives_of_pytorch(tmp_path):
    from flambeau import _archive
    from flambeau.torch.shims import serialization

    for layout in LAYOUTS:
        x = convert(holey(4, 6), layout)
        file = io.BytesIO()
        _archive.write({"x": x}, file)
        file.seek(0)
        assert fl.equal(serialization.load(file)["x"].to_dense(), x.to_dense())


def test_scipy():
    scipy = pytest.importorskip("scipy.sparse")
    made = scipy.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    for form in ("csr", "csc", "coo", "bsr", "lil"):
        x = fl.sparse.from_scipy(made.asformat(form))
        assert np.array_equal(x.to_dense().numpy(), made.toarray()), form
        assert np.array_equal(fl.sparse.to_scipy(x).toarray(), made.toarray()), form
    shared = fl.sparse.from_scipy(made)
    assert shared.values().data_ptr() == made.data.ctypes.data
    made.data[0] = 7.0
    assert shared.values()[0].item() == 7.0 and np.shares_memory(fl.sparse.to_scipy(shared).data, made.data)
    other = scipy.random_array((30, 20), density=0.2, rng=np.random.default_rng(1), format="csr")
    product = fl.sparse.from_scipy(made) @ fl.sparse.from_scipy(other)
    assert np.allclose(product.to_dense().numpy(), (made @ other).toarray())


@pytest.mark.parametrize("make", ["SGD", "Adagrad", "SparseAdam"])
def test_optimizers_take_sparse_gradients(make):
    def train(is_sparse, optimizer):
        fl.manual_seed(0)
        table = nn.Embedding(50, 4, sparse=is_sparse)
        steps = optimizer(table.parameters())
        for step in range(4):
            steps.zero_grad()
            rows = table(fl.tensor([step, 7, 7, 3 * step]))
            (rows * rows).sum().backward()
            assert table.weight.grad.is_sparse == is_sparse
            nn.utils.clip_grad_norm_(table.parameters(), 3.0)
            steps.step()
        return table.weight.detach()

    options = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adagrad": {"lr": 0.1}, "SparseAdam": {"lr": 0.1}}[make]
    found, expected = (train(is_sparse, lambda p: getattr(fl.optim, make)(p, **options)) for is_sparse in (True, False))
    assert fl.allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_other_optimizers_refuse_them():
    table = nn.Embedding(5, 2, sparse=True)
    table(fl.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse gradients"):
        fl.optim.Adam(table.parameters()).step()
    with pytest.raises(RuntimeError, match="weight_decay"):
        fl.optim.SGD(table.parameters(), lr=0.1, weight_decay=0.1).step()
    table.zero_grad(set_to_none=False)
    assert table.weight.grad._nnz() == 0
    bag = nn.EmbeddingBag(5, 2, mode="sum", sparse=True)
    bag(fl.tensor([1, 1, 3]), fl.tensor([0, 2])).sum().backward()
    assert bag.weight.grad.is_sparse and bag.weight.grad._nnz() == 2


def pair(values, **options):
    return fl.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2), **options)


def test_leaves_stay_leaves_in_place():
    change = {
        "mul_": lambda x: x.mul_(2),
        "div_": lambda x: x.div_(2),
        "neg_": lambda x: x.neg_(),
        "zero_": lambda x: x.zero_(),
        "copy_": lambda x: x.copy_(pair([5.0, 6.0])),
        "copy_ of others": lambda x: x.copy_(fl.eye(2).to_sparse()),
        "add_": lambda x: x.add_(fl.eye(2).to_sparse()),
    }
    for name, operator in change.items():
        x = pair([1.0, 2.0], requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            operator(x)
        with fl.no_grad():
            operator(x)
        assert x.requires_grad and x.is_leaf, name


def test_sparse_parameters_are_trained():
    weight = nn.Parameter(pair([1.0, 2.0]))
    steps = fl.optim.SGD([weight], lr=0.25)
    for _ in range(3):
        steps.zero_grad()
        weight.to_dense().sum().backward()
        steps.step()
    assert weight._values().tolist() == [0.25, 1.25] and weight.requires_grad
    weight.grad.mul_(0.5)
    assert weight.grad._values().tolist() == [0.5, 0.5]
    nn.utils.clip_grad_norm_([weight], 0.1)
    assert weight.grad._values().norm().item() == pytest.approx(0.1, rel=1e-3)


def test_gradients_of_other_patterns_are_refused():
    x = pair([1.0, 2.0], requires_grad=True)
    other = fl.eye(2).to_sparse()
    with pytest.raises(RuntimeError, match="indices"):
        x.grad = other
    with pytest.raises(RuntimeError, match="indices"):
        (x * 2).backward(other)
    (x * 2).backward(pair([3.0, 4.0]))
    assert x.grad._values().tolist() == [6, 8]


def test_indices_are_checked_and_cannot_be_resized():
    blocks = fl.ones(8, 8).to_sparse_bsr((4, 4))
    blocks.col_indices().fill_(2**62)
    with pytest.raises(IndexError, match="out of bounds"):
        blocks.to_dense()
    s = pair([1.0, 2.0])
    s._indices().resize_(3)
    assert s._nnz() == 2 and s.to_dense().tolist() == [[0, 1], [2, 0]]
    with pytest.raises((RuntimeError, TypeError, ValueError), match="can't be cast"):
        fl.zeros(2, 2, dtype=fl.int64).add_(pair([2.7, 3.7]))


def test_scipy_gets_checked_indices():
    pytest.importorskip("scipy.sparse")
    s = fl.eye(3).to_sparse_csr()
    s.col_indices()[0] = 10**9
    with pytest.raises(IndexError, match="out of bounds"):
        fl.sparse.to_scipy(s)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64])
def test_lazy_weight_decay_is_for_the_rows_of_the_gradient(dtype):
    fl.manual_seed(0)
    table = nn.Parameter(fl.randn(20, 3).to(dtype))
    expected, means, squares = table.detach().double().numpy().copy(), np.zeros((20, 3)), np.zeros((20, 3))
    adam = fl.optim.SparseAdam([table], lr=0.1, betas=(0.8, 0.95), weight_decay=0.3, lazy=True)
    for step, rows in enumerate(([1, 5, 5], [5, 19], [0], [1, 7, 19])):
        adam.zero_grad()
        (nn.functional.embedding(fl.tensor(rows), table, sparse=True) ** 2).sum().backward()
        for row in sorted(set(rows)):
            grad = 2 * rows.count(row) * expected[row] + 0.3 * expected[row]
            means[row] += 0.2 * (grad - means[row])
            squares[row] += 0.05 * (grad * grad - squares[row])
            rate = 0.1 * (1 - 0.95 ** (step + 1)) ** 0.5 / (1 - 0.8 ** (step + 1))
            expected[row] -= rate * means[row] / (np.sqrt(squares[row]) + 1e-8)
        adam.step()
    tolerance = 1e-5 if dtype == fl.float32 else 1e-12
    assert np.allclose(table.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def test_steps_in_one_pass_are_those_by_operators():
    def train(is_contiguous):
        rows = fl.arange(24.0, dtype=fl.float64).reshape(8, 3) / 10
        table = nn.Parameter(rows if is_contiguous else rows.t().contiguous().t())
        adam = fl.optim.SparseAdam([table], lr=0.1, weight_decay=0.1, lazy=True)
        for rows in ([0, 3], [3, 7, 7]):
            adam.zero_grad()
            (nn.functional.embedding(fl.tensor(rows), table, sparse=True) ** 2).sum().backward()
            adam.step()
        return table.detach()

    # A table that is not contiguous takes the operators.
    assert fl.allclose(train(True), train(False), rtol=1e-12)


def test_weight_decay_is_never_lazy_silently():
    with pytest.raises(ValueError, match="lazy=True"):
        fl.optim.SparseAdam([nn.Parameter(fl.ones(2, 2))], weight_decay=0.1)


FORGED_ROWS = [[0, 1, 3], [1, 1, 2], [0, 3, 2], [0, -1, 2], [0, 2**63 - 1, 2], [0, -(2**63), 2], [0, 2]]
FORGED_COLUMNS = [[0, 2], [0, -1], [0, 2**62], [-(2**63), 0], [0], [0, 1, 1]]


@pytest.mark.parametrize("make", [fl.sparse_csr_tensor, fl.sparse_csc_tensor])
def test_forged_parts_are_refused(make):
    ones = [1.0, 1.0]
    make([0, 1, 2], [0, 1], ones, (2, 2))
    for compressed, plain in [(bad, [0, 1]) for bad in FORGED_ROWS] + [([0, 1, 2], bad) for bad in FORGED_COLUMNS]:
        with pytest.raises((RuntimeError, ValueError, IndexError)):
            make(compressed, plain, ones, (2, 2))
    for bad in ([[0, 2], [0, 0]], [[0, -1], [0, 0]], [[0, 2**62], [0, 0]], [[0], [0]]):
        with pytest.raises((RuntimeError, ValueError, IndexError)):
            fl.sparse_coo_tensor(bad, ones, (2, 2))
    with pytest.raises((RuntimeError, ValueError, IndexError, OverflowError)):
        fl.sparse_coo_tensor([[0, 1], [0, 1]], ones, (2**40, 2**40))


USES = {
    "product": lambda x: x @ fl.ones(2, 3),
    "product with a vector": lambda x: x @ fl.ones(2),
    "product of sparse matrices": lambda x: x @ x,
    "transposed": lambda x: fl.ones(3, 2) @ x,
    "strided": lambda x: x.to_dense(),
    "rows": lambda x: x[fl.tensor([1, 0])].to_dense(),
    "softmax": lambda x: fl.sparse.softmax(x.to_sparse_coo(), 1).to_dense(),
    "sum": lambda x: fl.sparse.sum(x.to_sparse_coo(), 1).to_dense(),
    "sampled": lambda x: fl.sparse.sampled_addmm(x, fl.ones(2, 3), fl.ones(3, 2)),
    "columns": lambda x: x.to_sparse_csc().to_dense(),
    "sum of two": lambda x: (x + x).to_dense(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "part, bad",
    [("col_indices", 2), ("col_indices", -1), ("col_indices", 2**62), ("crow_indices", 5), ("crow_indices", -3)],
)
def test_whatever_reads_by_an_overwritten_index_fails(use, part, bad):
    x = fl.eye(2).to_sparse_csr()
    USES[use](x)
    getattr(x, part)()[1] = bad
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        USES[use](x)
