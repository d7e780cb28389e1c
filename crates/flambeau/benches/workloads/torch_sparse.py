#!/usr/bin/env python3
"""The workloads of sparse.rs in PyTorch, or with --scipy in SciPy, as far as each has them."""

import sys
import warnings

import torch
import torch_workloads
from torch_workloads import WORKLOADS, fill, indices, leaf, on

SIZES = {"1e3": 1000, "1e5": 100_000}
EACH = 10
TYPES = {"f32": torch.float32, "f64": torch.float64}


def coordinates(n, seed, dtype=torch.float32):
    count = n * EACH
    at = torch.stack([indices(count, bound=n, seed=seed), indices(count, bound=n, seed=seed + 1)])
    return torch.sparse_coo_tensor(at, fill(count, seed=seed + 2, dtype=dtype), (n, n))


def rows(n, seed, dtype=torch.float32):
    return coordinates(n, seed, dtype).coalesce().to_sparse_csr()


def with_narrow_indices(a):
    """The same matrix with indices of int32, as SciPy's."""
    return torch.sparse_csr_tensor(a.crow_indices().int(), a.col_indices().int(), a.values(), a.shape)


def in_torch(label, n):
    for type_label, dtype in TYPES.items():
        for width in (1, 64):
            make = lambda dtype=dtype, width=width: (rows(n, 1, dtype), fill(n, width, seed=9, dtype=dtype))
            on(f"sparse.mm{width}_{type_label}.{label}", make, torch.mm)
            narrow = lambda make=make: (with_narrow_indices(make()[0]), make()[1])
            on(f"sparse.mm{width}i32_{type_label}.{label}", narrow, torch.mm)
    on(f"sparse.matmul_f32.{label}", lambda: (rows(n, 1), rows(n, 4)), lambda a, b: (a @ b).values().sum())
    on(
        f"sparse.sampled_f32.{label}",
        lambda: (rows(n, 1), fill(n, 64, seed=8), fill(n, 64, seed=9)),
        lambda a, x, y: torch.sparse.sampled_addmm(a, x, y.t(), beta=0.0).values(),
    )
    on(f"sparse.coalesce_f32.{label}", lambda: coordinates(n, 1), lambda a: a.coalesce().values())
    transposed = lambda a: a.transpose(0, 1).to_sparse_csr().values()
    on(f"sparse.transpose_f32.{label}", lambda: rows(n, 1), transposed)
    on(f"sparse.transposei32_f32.{label}", lambda: with_narrow_indices(rows(n, 1)), transposed)
    on(f"sparse.add_f32.{label}", lambda: (rows(n, 1), rows(n, 4)), lambda a, b: (a + b).values())
    picked = lambda: indices(n // 10, bound=n, seed=7)
    coalesced = lambda: coordinates(n, 1).coalesce()
    select = lambda a, index: a.index_select(0, index)._values().sum()
    on(f"sparse.selectcoo_f32.{label}", lambda: (coalesced(), picked()), select)
    for kind in ("softmax", "softmaxcoo"):
        # PyTorch has it for coordinates only.
        on(f"sparse.{kind}_f32.{label}", coalesced, lambda a: torch.sparse.softmax(a, 1).values())
    WORKLOADS[f"sparse.adam_f32.{label}"] = lambda: adam(n)


def adam(n):
    table, ids = leaf(n * 10, 64, seed=1), indices(4096, bound=n * 10, seed=2)
    optimizer = torch.optim.SparseAdam([table])

    def call():
        optimizer.zero_grad()
        loss = torch.nn.functional.embedding(ids, table, sparse=True).sum()
        loss.backward()
        optimizer.step()
        return loss

    return call


def in_scipy(label, n):
    import scipy.sparse

    def scipy_coordinates(seed, dtype=torch.float32):
        of = coordinates(n, seed, dtype)
        row, column = of._indices().numpy().astype("int32")
        return scipy.sparse.coo_array((of._values().numpy(), (row, column)), shape=(n, n))

    def scipy_rows(seed, dtype=torch.float32):
        made = scipy_coordinates(seed, dtype).tocsr()
        made.sum_duplicates()
        return made

    def coalesced(a):
        # SciPy coalesces in place, and would find its work done in the second call.
        made = a.tocsr()
        made.sum_duplicates()
        return torch.from_numpy(made.data)

    for type_label, dtype in TYPES.items():
        for width in (1, 64):
            make = lambda dtype=dtype, width=width: (scipy_rows(1, dtype), fill(n, width, seed=9, dtype=dtype).numpy())
            for indices_label in ("", "i32"):
                name = f"sparse.mm{width}{indices_label}_{type_label}.{label}"
                on(name, make, lambda a, b: torch.from_numpy(a @ b))
    pair = lambda: (scipy_rows(1), scipy_rows(4))
    on(f"sparse.matmul_f32.{label}", pair, lambda a, b: torch.from_numpy((a @ b).data).sum())
    on(f"sparse.coalesce_f32.{label}", lambda: scipy_coordinates(1), coalesced)
    for kind in ("transpose", "transposei32"):
        on(f"sparse.{kind}_f32.{label}", lambda: scipy_rows(1), lambda a: torch.from_numpy(a.T.tocsr().data))
    on(f"sparse.add_f32.{label}", pair, lambda a, b: torch.from_numpy((a + b).data))
    picked = lambda: indices(n // 10, bound=n, seed=7).numpy()
    on(f"sparse.select_f32.{label}", lambda: (scipy_rows(1), picked()), lambda a, at: torch.from_numpy(a[at].data))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "Sparse (CSR|CSC|invariant)", UserWarning)
    family = in_torch
    if "--scipy" in sys.argv:
        sys.argv.remove("--scipy")
        family = in_scipy
    WORKLOADS.clear()
    for size in SIZES.items():
        family(*size)
    torch_workloads.main()
