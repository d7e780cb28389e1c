"""Files of `torch.save`: their values come as Python has them, models load from them, and programs are refused by name."""

import math
import os
import pathlib
from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn, optim

FILES = pathlib.Path(__file__).resolve().parents[2] / "nn" / "tests" / "pytorch"


def test_a_checkpoint_has_the_types_it_had():
    found = fl.load(FILES / "checkpoint.pt", map_location="cpu", weights_only=True)
    assert type(found) is dict and type(found["model"]) is OrderedDict
    assert found["model"]._metadata["1"] == {"version": 2}
    assert found["plain"] == [None, True, False, 0, 255, 256, 65536, -1, 2**40, -(2**40), 0.25, math.inf, "größe"]
    assert [type(x) for x in found["plain"][:3]] == [type(None), bool, bool]
    assert found["nested"] == {"tuple": (1, (2,), ()), 3: [[], {}], None: OrderedDict(a=1)}
    assert type(found["size"]) is fl.Size and found["size"] == (2, 3) and found["dtype"] is fl.bfloat16
    assert type(found["parameter"]) is nn.Parameter and found["parameter"].requires_grad
    assert not found["frozen"].requires_grad
    assert type(found["leaf"]) is fl.Tensor and found["leaf"].requires_grad and found["leaf"].is_leaf


def test_a_model_and_its_optimizer_go_on():
    found = fl.load(str(FILES / "checkpoint.pt"))
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    assert str(model.load_state_dict(found["model"])) == "<All keys matched successfully>"
    assert model[1].num_batches_tracked.item() == 1
    adam = optim.Adam(model.parameters())
    adam.load_state_dict(found["optimizer"])
    assert adam.param_groups[0]["betas"] == (0.8, 0.9)
    assert adam.state[model[0].weight]["step"].item() == 1
    model(fl.ones(2, 3)).sum().backward()
    adam.step()


def test_views_share_their_storage():
    found = fl.load(FILES / "layouts.pt")
    found["base"].fill_(7)
    assert found["gaps"].tolist() == [[7, 7], [7, 7]] and found["column"].stride() == (1, 6)
    assert found["bfloat16"].dtype is fl.bfloat16 and found["bfloat16"].tolist() == [[0, 1, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("big-endian.pt", "little-endian order"),
        ("module.pt", "torch.nn.modules.linear.Linear"),
        ("hostile.pt", "open`, which is not looked up"),
        ("before-1.6.pt", "safetensors"),
    ],
)
def test_what_is_refused_is_named(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, NotImplementedError), match=words):
        fl.load(FILES / name)
    assert os.listdir(tmp_path) == []


def test_complex_numbers_are_read():
    weight = fl.load(FILES / "complex.pt")["weight"]
    assert weight.dtype is fl.complex64 and weight.tolist() == [1, 1]


def test_sparse_tensors_are_read():
    found = fl.load(FILES / "sparse.pt")
    dense = [[0, 1, 0, 0], [2, 0, 0, 3]]
    for name in ("coo", "csr", "csc", "bsr", "bsc", "hybrid"):
        layout = fl.sparse_coo if name == "hybrid" else getattr(fl, f"sparse_{name}")
        assert found[name].layout == layout and found[name].to_dense().tolist() == dense
    assert not found["repeated"].is_coalesced() and found["repeated"].coalesce().values().tolist() == [1, 3]
    with pytest.raises(ValueError, match="index 7 is out of bounds"):
        fl.load(FILES / "forged-sparse.pt")


def test_options_that_are_not_implemented():
    with pytest.raises(ValueError, match="never programs"):
        fl.load(FILES / "layouts.pt", weights_only=False)
    with pytest.raises((NotImplementedError, RuntimeError)):
        fl.load(FILES / "layouts.pt", map_location="cuda")
