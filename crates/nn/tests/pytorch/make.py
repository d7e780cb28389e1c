"""Makes the files of this folder with PyTorch: `python crates/nn/tests/pytorch/make.py`. They were made by PyTorch 2.15."""

import pathlib
import zipfile
from collections import OrderedDict

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
         torch.float16, torch.bfloat16, torch.float32, torch.float64]


def layouts():
    """Tensors of every type, and views: column-major (transposed), with gaps, from the middle, of one element seen often, of nothing."""
    base = torch.arange(24.0)
    return {
        **{str(dtype)[6:]: torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype) for dtype in TYPES},
        "special": torch.tensor([float("nan"), float("inf"), -0.0, 2.0**-149]),
        "base": base,
        "column": base.view(4, 6).t(),
        "gaps": base.view(4, 6)[1::2, ::3],
        "repeated": base[5].expand(2, 3),
        "number": torch.tensor(-2.5, dtype=torch.float64),
        "empty": torch.empty(0, 3),
    }


def checkpoint():
    """What a training loop saves: a model's state, an optimiser's, and plain values."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.8, 0.9))
    model(torch.arange(15.0).view(5, 3)).sum().backward()
    optimizer.step()
    for parameter in model.parameters():
        parameter.data.fill_(0.5)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameter": nn.Parameter(torch.arange(3.0)),
        "frozen": nn.Parameter(torch.arange(2.0), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True),
        "plain": [None, True, False, 0, 255, 256, 65536, -1, 2**40, -(2**40), 0.25, float("inf"), "größe"],
        "nested": {"tuple": (1, (2,), ()), 3: [[], {}], None: OrderedDict(a=1)},
        "size": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "long": "x" * 300,
    }


def of_the_other_order(source, target):
    """The same file with another record of the order of bytes; PyTorch writes that on machines of that order."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            new.writestr(entry.filename, b"big" if entry.filename.endswith("/byteorder") else data)


# Types of elements that have no kind of storage of their own, each in a file by its name.
STORED = {
    "uint16": torch.tensor([[1, 65535, 7]], dtype=torch.uint16),
    "uint64": torch.tensor([0, 2**63, 2**64 - 1], dtype=torch.uint64)[1:],
    "float8_e4m3fn": torch.tensor([0.3, -448.0, float("nan")]).to(torch.float8_e4m3fn),
    "float8_e8m0fnu": torch.tensor([1.0, 2.0**-127, 2.0**127]).to(torch.float8_e8m0fnu),
    "complex32": torch.tensor([1 - 2j, 65504j]).to(torch.complex32),
}


def sparse():
    """A matrix in every sparse layout, one of coordinates that are not coalesced, and a storage that two of them share."""
    dense = torch.tensor([[0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, 3.0]])
    indices, values = torch.tensor([[1, 0, 1], [3, 1, 3]]), torch.tensor([1.0, 1.0, 2.0])
    return {
        "values": values,
        "coo": dense.to_sparse(),
        "repeated": torch.sparse_coo_tensor(indices, values, (2, 4)),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": dense.to_sparse_bsr((2, 2)),
        "bsc": dense.to_sparse_bsc((1, 2)),
        "hybrid": dense.to_sparse(1),
        "empty": torch.sparse_coo_tensor((3, 0)),
    }


def forged():
    """A sparse tensor with an index outside of it."""
    indices = torch.tensor([[0, 1], [0, 7]])
    return {"weight": torch.sparse_coo_tensor(indices, torch.ones(2), (2, 4), check_invariants=False)}


class Foreign:
    """What a hostile file would do; `open` stands for worse."""

    def __reduce__(self):
        return open, ("hostile-file-was-here", "w")


torch.save(layouts(), HERE / "layouts.pt")
torch.save(checkpoint(), HERE / "checkpoint.pt")
torch.save({"weight": torch.ones(2, dtype=torch.complex64)}, HERE / "complex.pt")
torch.save(sparse(), HERE / "sparse.pt")
torch.save(forged(), HERE / "forged-sparse.pt")
for name, weight in STORED.items():
    torch.save({"weight": weight}, HERE / f"{name}.pt")
torch.save({"weight": torch.ones(2)}, HERE / "before-1.6.pt", _use_new_zipfile_serialization=False)
torch.save({"weight": torch.ones(2), "other": Foreign()}, HERE / "hostile.pt")
torch.save(nn.Linear(2, 2), HERE / "module.pt")
of_the_other_order(HERE / "layouts.pt", HERE / "big-endian.pt")
