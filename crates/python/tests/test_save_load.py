"""Checkpoints: nested values go round, other programs still read the tensors, damage and strange values are errors."""

import json
import math
import os
from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn, optim


def round_trip(value, folder):
    fl.save(value, folder / "file")
    return fl.load(folder / "file")


def test_a_checkpoint_goes_round(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    adam = optim.Adam(model.parameters(), lr=1e-3)
    model(fl.randn(5, 3)).sum().backward()
    adam.step()
    saved = {"model": model.state_dict(), "optimizer": adam.state_dict(), "epoch": 7, "best": 0.1, "name": "größe"}
    found = round_trip(saved, tmp_path)
    assert (found["epoch"], found["best"], found["name"]) == (7, 0.1, "größe")
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    other.load_state_dict(found["model"])
    twin = optim.Adam(other.parameters(), lr=1.0)
    twin.load_state_dict(found["optimizer"])
    for m, o in ((model, adam), (other, twin)):
        o.zero_grad()
        m(fl.ones(2, 3)).sum().backward()
        o.step()
    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in model.parameters()]


def test_plain_values_keep_their_types(tmp_path):
    value = [None, True, 1, 2.5, math.inf, 10**30, "text", (1, [2, (3,)]), {"a": 1, 2: "b", None: 3}, fl.bfloat16, fl.Size([1, 2])]
    found = round_trip(value, tmp_path)
    assert found == value and [type(x) for x in found] == [type(x) for x in value]
    assert type(found[8]) is dict and list(found[8]) == ["a", 2, None]
    ordered = OrderedDict([("z", 1), ("a", 2)])
    assert type(round_trip(ordered, tmp_path)) is OrderedDict
    assert math.isnan(round_trip({"x": math.nan}, tmp_path)["x"])
    assert round_trip(fl.arange(3), tmp_path).tolist() == [0, 1, 2]


def test_names_do_not_meet_and_what_is_one_tensor_stays_one(tmp_path):
    x, y = fl.ones(2), fl.zeros(2)
    found = round_trip({"a": {"b": x}, "a.b": y, "again": [x]}, tmp_path)
    assert found["a"]["b"].tolist() == [1, 1] and found["a.b"].tolist() == [0, 0]
    assert found["again"][0] is found["a"]["b"]


def test_other_programs_find_the_tensors_by_their_paths(tmp_path):
    fl.save({"model": {"weight": fl.ones(2)}, "steps": [fl.zeros(1)], "epoch": 3}, tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert set(header) == {"__metadata__", "model.weight", "steps.0"}


def test_what_cannot_be_saved_leaves_the_file_of_before(tmp_path):
    fl.save({"x": fl.ones(1)}, tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    for value, message in (
        ({"x": fl.ones(1), "f": print}, "builtin_function_or_method at f"),
        ({"deep": [1, {2}]}, "set at deep.1"),
        (object(), "object at the value itself"),
    ):
        with pytest.raises(TypeError, match=message):
            fl.save(value, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == before and os.listdir(tmp_path) == ["file"]


def test_damage_is_an_error(tmp_path):
    fl.save({"a": [fl.arange(3)], "b": 1}, tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    for end in range(0, len(data), 5):
        (tmp_path / "cut").write_bytes(data[:end])
        with pytest.raises(ValueError, match="cut"):
            fl.load(tmp_path / "cut")
    (tmp_path / "other").write_bytes(data.replace(b'tensor', b'sensor'))
    with pytest.raises(ValueError, match="sensor"):
        fl.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        fl.load(tmp_path / "absent")
