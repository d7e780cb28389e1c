"""Files of tensors: what goes in comes out, other programs read it, and damage is found."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.serialization import CODES, load_with_notes

ARRAYS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


def read_with_numpy(path):
    """An independent reader: bytes 0 to 8 are the length of a table in JSON, and arrays follow."""
    data = path.read_bytes()
    length = int(np.frombuffer(data[:8], "<u8")[0])
    table = json.loads(data[8 : 8 + length])
    found = {}
    for name, entry in table.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            found[name] = np.frombuffer(data[begin:end], ARRAYS[entry["dtype"]]).reshape(entry["shape"])
    return found, table.get("__metadata__")


@pytest.mark.parametrize("code", CODES)
def test_every_type_goes_round(tmp_path, code):
    values = flambeau.tensor([[0, 1, 2], [3, 100, 1]]).to(CODES[code])
    tensors = {"a": values, "view": values.t()[1:], "none": flambeau.empty(0, 3, dtype=CODES[code]), "one": values[1, 1]}
    flambeau.save(tensors, tmp_path / "x.safetensors")
    loaded = flambeau.load(tmp_path / "x.safetensors")
    assert list(loaded) == sorted(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
        assert loaded[name].tolist() == tensor.tolist()


def test_other_programs_read_it(tmp_path):
    tensors = {
        "whole": flambeau.arange(5, dtype=flambeau.int32),
        "weight": flambeau.randn(3, 4, dtype=flambeau.float64).t(),
        "flags": flambeau.tensor([True, False, True]),
    }
    flambeau.save(tensors, tmp_path / "x.safetensors", notes={"made by": "a test"})
    arrays, notes = read_with_numpy(tmp_path / "x.safetensors")
    assert notes == {"made by": "a test"}
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(arrays[name], np.array(tensor.tolist()))
    assert load_with_notes(tmp_path / "x.safetensors")[1] == notes


def test_modules_go_round(tmp_path):
    source, target = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    source(flambeau.randn(8, 3))
    flambeau.save(source.state_dict(), tmp_path / "net")
    target.load_state_dict(flambeau.load(tmp_path / "net"))
    x = flambeau.randn(2, 3)
    assert target.eval()(x).tolist() == source.eval()(x).tolist()
    assert target[1].num_batches_tracked.item() == 1


def test_a_failure_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "x"
    flambeau.save({"a": flambeau.ones(2)}, path)
    with pytest.raises(TypeError, match="got set at b"):
        flambeau.save({"a": flambeau.zeros(2), "b": {1}}, path)
    with pytest.raises(TypeError, match="notes"):
        flambeau.save({}, path, notes={"step": 1})
    assert flambeau.load(path)["a"].tolist() == [1.0, 1.0]
    with pytest.raises(OSError):
        flambeau.save({"a": flambeau.ones(2)}, tmp_path / "no folder" / "x")
    assert os.listdir(tmp_path) == ["x"]


def test_damage_is_found(tmp_path):
    path = tmp_path / "x"
    flambeau.save({"a": flambeau.arange(4.0), "b": flambeau.arange(3)}, path, notes={"n": "1"})
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="not a whole safetensors file"):
            flambeau.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(ValueError, match="1 bytes belong to no tensor"):
        flambeau.load(path)


def entry(**changes):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}


@pytest.mark.parametrize("table, message", [
    ({"a": entry(shape=[3])}, "expected 12 bytes"),
    ({"a": entry(dtype="F4")}, "no tensors"),
    ({"a": entry(data_offsets=[0, 80])}, "lies at"),
    ({"a": entry(data_offsets=[4, 12])}, "lies at"),
    ({"a": entry(), "b": entry()}, "lies at"),
    ({"a": {"dtype": "F32"}}, "data_offsets"),
    ({"a": entry(shape=[-2])}, "not a whole"),
    ([1], "not a whole"),
])
def test_tables_that_lie(tmp_path, table, message):
    text = json.dumps(table).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ValueError, match=message):
        flambeau.load(tmp_path / "x")
