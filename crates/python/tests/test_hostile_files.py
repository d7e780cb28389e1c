"""Files that were made to do harm: nothing comes out of them but tensors and plain values, in memory that goes with their size."""

import json
import pathlib
import random
import struct
import subprocess
import sys

import pytest

import flambeau as fl
from fuzz_readers import ODD_INTS, bomb, odd_json, text

STRUCTURE = "flambeau.structure"
DTYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
DTYPES |= {"uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex32"}

KINDS = {"tensor", "dtype", "size", "sparse", "list", "tuple", "dict", "ordered"}


def safetensors(header, body=b"", length=None):
    encoded = json.dumps(header).encode()
    return (len(encoded) if length is None else length).to_bytes(8, "little") + encoded + body


def structured(tree):
    """A file of one tensor, `x`, whose notes say `tree` of the value."""
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    return safetensors({"__metadata__": {STRUCTURE: json.dumps(tree)}, "x": entry}, bytes(8))


def zipped(program, storage=b""):
    """An archive of `torch.save` with this program and a storage named 0."""
    file, directory = b"", b""
    for name, data in ((b"a/data.pkl", program), (b"a/data/0", storage)):
        sizes = struct.pack("<IIHH", len(data), len(data), len(name), 0)
        directory += b"PK\1\2" + bytes(16) + sizes + bytes(10) + struct.pack("<I", len(file)) + name
        file += b"PK\3\4" + bytes(14) + sizes + name + data
    return file + directory + b"PK\5\6" + bytes(4) + struct.pack("<HHIIH", 2, 2, len(directory), len(file), 0)


@pytest.fixture
def load(tmp_path):
    def load(data):
        (tmp_path / "file").write_bytes(data)
        return fl.load(tmp_path / "file")

    return load


def names_of_things():
    """What the package, its modules and the builtins have names for."""
    draw = random.Random(3)
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("flambeau")]
    names = {name for module in modules for name in vars(module)} | set(dir(fl)) | {"__builtins__", "load", "viz", "os", "nn.Linear"}
    return draw.sample(sorted(names - DTYPES), 200) + ["load", "viz", "__builtins__", "Tensor"]


def test_a_structure_names_nothing_but_types_and_tensors(load):
    for name in names_of_things():
        for kind in ("dtype", "tensor"):
            with pytest.raises(ValueError, match=f"expected the name of a {kind}"):
                load(structured({kind: name}))
        if name not in KINDS:
            with pytest.raises(ValueError, match="known here"):
                load(structured({name: []}))
    for name in DTYPES:
        assert load(structured({"dtype": name})) is getattr(fl, name)
    assert load(structured({"tensor": "x"})).tolist() == [0, 0]


def test_a_program_of_pytorch_names_nothing_else_either(load):
    for name in names_of_things():
        for module in ("flambeau", "builtins", "torch", "os"):
            if (module, name) != ("torch", "Size"):
                with pytest.raises(ValueError, match="which is not looked up|of a type that no tensors have"):
                    load(zipped(b"\x80\x02c%s\n%s\n." % (module.encode(), name.encode())))


def plain(value):
    if isinstance(value, dict):
        return all(plain(x) for pair in value.items() for x in pair)
    if isinstance(value, (list, tuple)):
        return all(map(plain, value))
    return value is None or isinstance(value, (bool, int, float, str, fl.Tensor, fl.dtype))


def test_structures_of_any_json_are_values_or_errors(load):
    draw, read = random.Random(5), 0
    for _ in range(1500):
        try:
            value = load(structured(odd_json(draw)))
        except ValueError as error:
            assert "not a whole safetensors file" in str(error)
        else:
            read += 1
            assert plain(value)
    assert read > 50


def test_headers_of_any_json_are_the_errors_of_the_reader(load):
    draw = random.Random(8)
    good = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for _ in range(600):
        part = draw.choice(list(good))
        for entry in ({**good, part: odd_json(draw)}, {**good, part: [draw.choice(ODD_INTS) for _ in range(draw.randrange(4))]}):
            if entry == good:
                continue
            with pytest.raises(ValueError, match="not a whole safetensors file"):
                load(safetensors({"x": entry}, bytes(8)))
    for odd in (None, 1, [], "x", [good], {"x": None}, {"x": [good]}, {"x": good, "__metadata__": {"a": 1}}, {"__metadata__": [1]}):
        with pytest.raises(ValueError, match="not a whole safetensors file"):
            load(safetensors(odd, bytes(8)))


def test_a_key_is_there_once(load):
    entry = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    for header in (f'{{"x":{entry},"x":{entry}}}', entry.replace('"shape"', '"dtype":"F32","shape"').join(('{"x":', "}"))):
        with pytest.raises(ValueError, match="is there twice"):
            load(len(header).to_bytes(8, "little") + header.encode() + bytes(8))


LIMITED = """
import pathlib, resource, sys
import flambeau as fl
fl.ones(1).add(1)
in_use = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + int(sys.argv[2]), in_use + int(sys.argv[2])))
try:
    fl.load(sys.argv[1])
    print("read")
except (ValueError, MemoryError) as error:
    print(f"{type(error).__name__}: {error}")
assert fl.ones(3).sum().item() == 3
"""


def limited(path, memory=512 << 20):
    """What `load` says of a file in a process that may not use more memory than that."""
    command = [sys.executable, "-c", LIMITED, str(path), str(memory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_programs_that_make_much_of_little(tmp_path):
    draw = random.Random(11)
    said = []
    for _ in range(12):
        (tmp_path / "file").write_bytes(zipped(bomb(draw)))
        said.append(limited(tmp_path / "file"))
    assert not any(line.startswith("MemoryError") for line in said), said
    # A text of 8 MB, said a million times.
    large = b"\x80\x02](" + text("x" * (8 << 20)) + b"q\0" + b"h\0" * 1_000_000 + b"e."
    (tmp_path / "file").write_bytes(zipped(large))
    assert "goes with the file's" in limited(tmp_path / "file", 2 << 30)


def with_hole(path, head, tail, length):
    """A file of that length which has only its ends on the disk."""
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(length - len(tail))
        file.seek(length - len(tail))
        file.write(tail)


LONG = 1 << 40


def test_files_that_are_mostly_a_hole(tmp_path):
    path = tmp_path / "file"
    # A table of contents, a tensor, a directory and a program of 2^40 bytes.
    with_hole(path, (LONG - 8).to_bytes(8, "little"), b"", LONG)
    assert "ValueError" in limited(path)
    entry = {"dtype": "F32", "shape": [LONG // 4], "data_offsets": [0, LONG]}
    head = safetensors({"x": entry})
    with_hole(path, head, b"", LONG + len(head))
    assert "Error" in limited(path)
    for count, size, offset in ((2, LONG, 100), (2**62, 46, 100), (2, 200, 2**64 - 100), (2**64 - 1, 2**64 - 1, 0)):
        wide = b"PK\6\6" + bytes(20) + struct.pack("<QQQQ", count, count, size, offset)
        locator = b"PK\6\7" + bytes(4) + struct.pack("<Q", 2 * LONG - 98) + bytes(4)
        with_hole(path, b"PK\3\4", wide + locator + b"PK\5\6" + bytes(4) + b"\xff" * 12 + bytes(2), 2 * LONG)
        assert "ValueError" in limited(path)
    for program, storage in ((b"N.", LONG), (None, 10)):
        directory = b""
        for name, size, at in ((b"a/data.pkl", len(program) if program else LONG, 0), (b"a/data/0", storage, 200)):
            extra = struct.pack("<HHQQQ", 1, 24, size, size, at)
            directory += b"PK\1\2" + bytes(16) + b"\xff" * 8 + struct.pack("<HH", len(name), len(extra)) + bytes(10) + b"\xff" * 4 + name + extra
        wide = b"PK\6\6" + bytes(20) + struct.pack("<QQQQ", 2, 2, len(directory), 2 * LONG)
        at = 2 * LONG + len(directory)
        locator = b"PK\6\7" + bytes(4) + struct.pack("<Q", at) + bytes(4)
        tail = directory + wide + locator + b"PK\5\6" + bytes(4) + b"\xff" * 12 + bytes(2)
        head = b"PK\3\4" + bytes(22) + struct.pack("<HH", 10, 0) + b"a/data.pkl" + (program or b"")
        with_hole(path, head, tail, 2 * LONG + len(tail))
        assert limited(path) == "read\n" if program else "at most" in limited(path)


def test_deep_json_and_programs(load):
    for count in (200, 5000, 100_000):
        for data in (b"[" * count, b'{"a":' * count, b"[" * count + b"]" * count):
            with pytest.raises(ValueError):
                load(len(data).to_bytes(8, "little") + data)
        for inside in ("[" * count, '{"list":[' * count, "[" * count + "]" * count):
            with pytest.raises(ValueError):
                load(safetensors({"__metadata__": {STRUCTURE: inside}}))
        if count > 200:
            with pytest.raises(ValueError):
                load(safetensors({"__metadata__": {STRUCTURE: '{"list":[' * count + "]}" * count}}))
        for program in (b"]" * count + b"a" * (count - 1), b")" + b"\x85" * count, b"(" * count + b"t" * count, b"}" + b"K\1}" * count + b"s" * count):
            with pytest.raises(ValueError, match="nested no deeper"):
                load(zipped(b"\x80\x02" + program + b"."))


def test_what_cannot_be_a_key_is_none(load):
    for key in (b"]", b"}", b"]\x85", b"K\1}\x86", b"ccollections\nOrderedDict\n)R"):
        with pytest.raises(ValueError, match="expected a key of a dict"):
            load(zipped(b"\x80\x02}" + key + b"Ns."))
    assert load(zipped(b"\x80\x02}K\1K\2\x86Ns.")) == {(1, 2): None}


def test_absent_files_and_folders_are_errors_of_the_system(tmp_path):
    for name, kind in (("absent", FileNotFoundError), (".", IsADirectoryError)):
        with pytest.raises(kind):
            fl.load(tmp_path / name)
    assert pathlib.Path(tmp_path).exists()
