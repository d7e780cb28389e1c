"""Reads files, messages and capsules that were changed at random: each is a value or an error of the reader's own, and nothing worse.

`python fuzz_readers.py --seconds 60 --seed 1 [--reader pt]` prints counts, and ends with 1 if anything was found: another exception,
a signal, more memory than goes with the file, or a file that takes too long. A case depends on the reader, the seed and its number
alone, so `--case 17` shows what happened in one; `--keep FOLDER` keeps the files of what was found.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import functools
import io
import json
import pathlib
import pickle
import pickletools
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

import flambeau as fl

# What a case may use beside what is in use before it, how long it may take, and how many cases a process is for.
MEMORY = 1 << 30
SECONDS = 10
BATCH = 400
# A file with holes may be longer than memory.
HOLES = 1 << 42
PYTORCH = pathlib.Path(__file__).resolve().parents[2] / "nn" / "tests" / "pytorch"
ODD_INTS = (-1, 0, 1, 2, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**40)


# --- changes that any file may suffer ---


def odd_bytes(draw: random.Random) -> bytes:
    if draw.random() < 0.5:
        return draw.randbytes(draw.randrange(1, 9))
    return (draw.choice(ODD_INTS) % 2**64).to_bytes(8, draw.choice(("little", "big")))[: draw.choice((1, 2, 4, 8))]


def damaged(draw: random.Random, data: bytes) -> bytes:
    """With some bytes changed, left out, put in or said twice."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        at = draw.randrange(len(data) + 1)
        length = draw.choice((0, 1, 4, 8, draw.randrange(len(data) + 1)))
        kind = draw.randrange(4)
        if kind == 0:
            new = odd_bytes(draw)
            data = data[:at] + new + data[at + len(new) :]
        elif kind == 1:
            data = data[:at] + data[at + length :]
        elif kind == 2:
            data = data[:at] + odd_bytes(draw) + data[at:]
        else:
            data = data[:at] + data[at : at + length] + data[at:]
    return data


# --- safetensors ---


def odd_json(draw: random.Random, depth: int = 0):
    kinds = [None, True, draw.choice(ODD_INTS), -0.5, 1e308, "", "F32", "x" * draw.randrange(300), "viz", "load", "a.0", "\0"]
    if depth < 3:
        kinds += [[odd_json(draw, depth + 1) for _ in range(draw.randrange(4))]] * 3
        kinds += [{draw.choice(("tensor", "dtype", "list", "dict", "size", "x")): odd_json(draw, depth + 1)}] * 5
    return draw.choice(kinds)


def mutated_json(draw: random.Random, tree):
    """With one part replaced, left out, moved or said twice; texts that hold JSON are gone into."""
    if not isinstance(tree, (dict, list, str)) or not tree or draw.random() < 0.15:
        return odd_json(draw)
    if isinstance(tree, str):
        try:
            return json.dumps(mutated_json(draw, json.loads(tree)))
        except ValueError:
            return odd_json(draw)
    tree = dict(tree) if isinstance(tree, dict) else list(tree)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key, other, action = draw.choice(keys), draw.choice(keys), draw.randrange(8)
    if action == 0:
        del tree[key]
    elif action == 1:
        tree[key] = tree[other]
    elif action == 2 and isinstance(tree, list):
        tree *= draw.choice((2, 3, 70))
    elif action == 3 and isinstance(tree, dict):
        tree[draw.choice(("__metadata__", "dtype", "shape", ""))] = tree.pop(key)
    else:
        tree[key] = mutated_json(draw, tree[key])
    return tree


@functools.cache
def safetensors_files() -> list[bytes]:
    values = [
        {"a": fl.arange(4.0), "b": fl.ones(2, 3, dtype=fl.bool), "none": fl.zeros(0, 3)},
        {"model": {"w": fl.ones(2)}, "steps": [fl.arange(3), (1, None, 2.5)], "size": fl.Size([2, 3]), "dtype": fl.float16, 3: {}},
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "file")
        found = []
        for value in values:
            fl.save(value, path, {"note": "one"})
            found.append(path.read_bytes())
    return found


def deep_json(draw: random.Random, count: int) -> bytes:
    return draw.choice((b"[" * count, b'{"a":' * count, b"[" * count + b"]" * count, b'{"__metadata__":{"flambeau.structure":"' + b"[" * count + b'"}}'))


def mutated_safetensors(draw: random.Random, data: bytes) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length], data[8 + length :]
    kind = draw.random()
    if kind < 0.2:
        return damaged(draw, data)
    if kind < 0.25:
        header = deep_json(draw, draw.choice((200, 10_000, 200_000)))
    else:
        tree = json.loads(header)
        for _ in range(draw.choice((1, 1, 2, 4))):
            tree = mutated_json(draw, tree)
        header = json.dumps(tree).encode()
        if draw.random() < 0.1:
            header = damaged(draw, header)
    length = len(header) if draw.random() < 0.95 else draw.choice(ODD_INTS) % 2**64
    return length.to_bytes(8, "little") + header + body


# --- archives of `torch.save` ---

STEPS = [*b"NK\x88\x89)]}(tsauebRQ.q.h02\x85\x86\x87\x8a\x80GJMXcjr"]
NAMES = (
    "collections OrderedDict", "torch Size", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "torch FloatStorage",
    "torch float32", "os system", "builtins eval", "flambeau viz", "flambeau load", "__builtin__ __builtins__", "torch nn",
)  # fmt: skip


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def operand(draw: random.Random, code: int) -> bytes:
    """A step of the machine with an argument that goes with it."""
    step, byte = bytes([code]), bytes([draw.randrange(8)])
    if code == ord("c"):
        return step + draw.choice(NAMES).replace(" ", "\n").encode() + b"\n"
    if code == ord("X"):
        return text(draw.choice(("storage", "0", "cpu", "_metadata", "x" * 50)))
    if code == 0x80:
        return step + b"\x02"
    if code == 0x8A:
        return step + b"\x04" + draw.randbytes(4)
    length = {"J": 4, "j": 4, "r": 4, "M": 2, "G": 8, "K": 1, "q": 1, "h": 1}.get(chr(code), 0)
    return step + (byte + bytes(length - 1) if length else b"")


def mutated_program(draw: random.Random, program: bytes) -> bytes:
    """With whole steps left out, put in, moved or said again."""
    try:
        starts = [at for _, _, at in pickletools.genops(program)]
    except ValueError:
        starts = list(range(len(program)))
    steps = [program[a:b] for a, b in zip(starts, [*starts[1:], len(program)])]
    numbers = [at for at, step in enumerate(steps) if step[:1] in (b"K", b"M", b"J")]
    if numbers and draw.random() < 0.5:
        # Sizes, strides, offsets and counts: the rest stays as it was.
        for at in draw.sample(numbers, min(len(numbers), draw.choice((1, 1, 2, 3)))):
            steps[at] = b"K" + bytes([draw.randrange(10)]) if draw.random() < 0.7 else b"\x8a\x08" + odd_bytes(draw)[:8].ljust(8, b"\0")
        return b"".join(steps)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        if not steps:
            break
        at, other = draw.randrange(len(steps)), draw.randrange(len(steps))
        kind = draw.randrange(5)
        if kind == 0:
            del steps[at]
        elif kind == 1:
            steps.insert(at, operand(draw, draw.choice(STEPS)))
        elif kind == 2:
            steps[at] = operand(draw, draw.choice(STEPS))
        elif kind == 3:
            steps[at], steps[other] = steps[other], steps[at]
        else:
            steps[at:at] = steps[other : other + draw.choice((1, 2, 10, 100))]
    return b"".join(steps)


def random_program(draw: random.Random) -> bytes:
    return b"\x80\x02" + b"".join(operand(draw, draw.choice(STEPS)) for _ in range(draw.randrange(60))) + b"."


def bomb(draw: random.Random) -> bytes:
    """A program that makes much out of little."""
    count = draw.choice((100, 10_000, 300_000))
    step = draw.choice((b"N", b"]", b"}", b")", b"(", b"K\1", b"h\0", b"h\0\x85", b"h\1h\2R", b"h\1h\3R", b"]a", b"\x85", b"(t", b"q\5"))
    shared = b"]q\0" + b"ctorch\nSize\nq\1(" + b"K\1" * 60 + b"tq\2\x85q\2ccollections\nOrderedDict\nq\3)q\3"
    doubling = b"]q\0" + b"".join(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(draw.choice((20, 90, 200))))
    return b"\x80\x02" + draw.choice((b"](" + shared + step * count + b"e.", shared + b"(" + step * count + b"t.", doubling + b".", step * count + b"."))


def archive(draw: random.Random, records: dict[str, bytes]) -> bytes:
    """The records in an archive of zip; some of its numbers are false."""
    file, directory = io.BytesIO(), io.BytesIO()
    falsehood = draw.choice((0, 0, 0, 0.01, 0.1))

    def number(value: int, width: int) -> bytes:
        value = value if draw.random() >= falsehood else draw.choice((*ODD_INTS, value + 1, value - 1, value * 2))
        return (value % 256**width).to_bytes(width, "little")

    count = 0
    for name, data in records.items():
        at, encoded, count = file.tell(), name.encode(), count + 1
        sizes = number(len(data), 4) + number(len(data), 4) + number(len(encoded), 2) + number(0, 2)
        file.write(b"PK\3\4" + number(0, 8) + number(0, 6) + sizes + encoded + data)
        directory.write(b"PK\1\2" + number(0, 8) + number(0, 8) + sizes + number(0, 10) + number(at, 4) + encoded)
    start, size = file.tell(), directory.tell()
    end = b"PK\5\6" + bytes(4) + number(count, 2) + number(count, 2) + number(size, 4) + number(start, 4) + bytes(2)
    if draw.random() < 0.3:
        wide = b"PK\6\6" + bytes(20) + number(count, 8) + number(count, 8) + number(size, 8) + number(start, 8)
        wide += b"PK\6\7" + bytes(4) + number(start + size, 8) + bytes(4)
        end = wide + b"PK\5\6" + bytes(4) + b"\xff" * 12 + bytes(2)
    return file.getvalue() + directory.getvalue() + end


@functools.cache
def pytorch_files() -> list[bytes]:
    return [(PYTORCH / name).read_bytes() for name in ("layouts.pt", "checkpoint.pt", "hostile.pt")]


def mutated_pytorch(draw: random.Random, data: bytes) -> bytes:
    kind = draw.random()
    if kind < 0.15:
        return damaged(draw, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archived:
        records = {entry.filename: archived.read(entry) for entry in archived.infolist()}
    program = next(name for name in records if name.endswith("data.pkl"))
    if kind < 0.65:
        records[program] = mutated_program(draw, records[program])
    elif kind < 0.75:
        records[program] = random_program(draw)
    elif kind < 0.8:
        records[program] = bomb(draw)
    elif kind < 0.9:
        name = draw.choice(list(records))
        records[name] = damaged(draw, records[name])
    else:
        del records[draw.choice(list(records))]
    return archive(draw, records)


# --- pickles of tensors ---


@functools.cache
def pickles() -> list[bytes]:
    fl.manual_seed(0)
    x = fl.arange(24.0).view(2, 3, 4).permute(2, 0, 1)[1:]
    named = fl.ones(2)
    named.name = "one"
    values = [x, [x, x[1:], fl.tensor(True)], {"meta": fl.zeros(2, 3, device="meta"), "leaf": named.requires_grad_()}, fl.nn.Linear(2, 3)]
    return [pickle.dumps(value, protocol) for value in values for protocol in (2, 5)]


def mutated_pickle(draw: random.Random, data: bytes) -> bytes:
    return damaged(draw, data) if draw.random() < 0.3 else mutated_program(draw, data)


def frombytes(owner, name: str):
    """`getattr`, for the one thing that pickles of storages use it for."""
    if owner is not fl.UntypedStorage or name != "frombytes":
        raise pickle.UnpicklingError(f"{owner}.{name}")
    return fl.UntypedStorage.frombytes


class Restricted(pickle.Unpickler):
    """Pickles may name whatever there is; here only what tensors and modules are made of."""

    NAMES = {
        "flambeau": ("Tensor", "UntypedStorage", "float32", "int64", "bool", "bfloat16", "Size", "device"),
        "flambeau._copying": ("_rebuild_tensor", "_rebuild_meta", "_rebuild_object"),
        "flambeau.nn.parameter": ("Parameter",),
        "flambeau.nn.modules.linear": ("Linear",),
        "collections": ("OrderedDict",),
        "builtins": ("set",),
        "_codecs": ("encode",),
    }

    def find_class(self, module, name):
        if (module, name) == ("builtins", "getattr"):
            return frombytes
        if name in self.NAMES.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}")


def load_pickle(path: pathlib.Path):
    """Python gives the names of protocol 2 those of Python 3."""
    return Restricted(io.BytesIO(path.read_bytes())).load()


# --- messages of shared memory ---


@functools.cache
def shared() -> list[tuple[fl.Tensor, list[float]]]:
    """Tensors in shared memory and what they hold, which no message may change."""
    tensors = [fl.arange(float(count)).share_memory_() for count in (0, 1, 17, 1000, 300_000)]
    return [(tensor, tensor.tolist()) for tensor in tensors]


def messages() -> list[bytes]:
    """Of which tensor to send a message: one opens once, so that each case is sent its own."""
    return [bytes([number]) for number in range(len(shared()))]


def mutated_message(draw: random.Random, data: bytes) -> bytes:
    """The tensor's number, and the changes to make to its message: offsets with new bytes, or another length."""
    changes = []
    for _ in range(draw.choice((0, 1, 1, 1, 2, 4))):
        if draw.random() < 0.1:
            changes.append((draw.randrange(60), None))
        else:
            # Whole words: the segment, its length, who has it open, record and cell, the ticket.
            at = 8 * draw.randrange(6) + draw.choice((0, 0, 4))
            changes.append((at, odd_bytes(draw).hex() if draw.random() < 0.8 else "%02x" % draw.choice((0, 1, 255))))
    return data + json.dumps(changes).encode()


def open_message(path: pathlib.Path):
    """Opens a message that was changed as the file says, and checks that no shared element did."""
    data = path.read_bytes()
    tensor, _ = shared()[data[0]]
    message = sent = tensor.untyped_storage()._send()
    for at, new in json.loads(data[1:]):
        message = message[:at] if new is None else message[:at] + bytes.fromhex(new) + message[at + len(new) // 2 :]
    try:
        storage = fl.UntypedStorage._open(message)
        if message != sent and storage.data_ptr() != tensor.data_ptr():
            raise AssertionError("a changed message led to other memory")
        return storage.tobytes()
    finally:
        if message != sent:
            take(sent)
        for tensor, values in shared()[:4]:
            if tensor.tolist() != values:
                raise AssertionError("the elements of a shared tensor changed")


def take(message: bytes) -> None:
    """Opens what was sent, so that nothing is held for it; what was changed may have used it up, if it led to the same."""
    try:
        fl.UntypedStorage._open(message)
    except RuntimeError:
        pass


# --- capsules of DLPack ---


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]


class Old(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


# What a capsule may say falsely: the consumer can check it. Addresses and how many sizes lie there it has to believe.
FIELDS = {"major": 2**32, "minor": 2**32, "flags": 2**64, "device_type": 2**31, "device_id": 2**31, "code": 2**8, "bits": 2**8, "lanes": 2**16}
# Elements of the memory behind each capsule.
ROOM = 128


def capsules() -> list[bytes]:
    plain = {"fields": {}, "sizes": [2, 3], "strides": [3, 1], "name": "dltensor_versioned", "deleter": True}
    return [json.dumps(plain | other).encode() for other in ({}, {"strides": None}, {"sizes": [], "strides": []}, {"sizes": [4, 0]})]


def mutated_capsule(draw: random.Random, data: bytes) -> bytes:
    """Other types, devices, versions and sizes; sizes that are not refused stay within the memory that is there."""
    said = json.loads(data)
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        kind = draw.randrange(6)
        if kind < 2:
            name = draw.choice(list(FIELDS))
            said["fields"][name] = draw.choice((*range(9), 16, 32, 64, 128, *ODD_INTS)) % FIELDS[name]
        elif kind == 2:
            said["sizes"] = [draw.randrange(4) for _ in range(draw.randrange(5))]
            said["strides"] = draw.choice((None, [draw.randrange(5) for _ in said["sizes"]]))
        elif kind == 3 and said["sizes"]:
            # More than any memory, or fewer than none.
            said["sizes"][draw.randrange(len(said["sizes"]))] = draw.choice((-1, -(2**63), 2**62, 2**63 - 1, 2**48))
        elif kind == 4 and said["strides"]:
            said["strides"][draw.randrange(len(said["strides"]))] = draw.choice((-1, 0, -(2**63), 2**63 - 1))
        else:
            said[draw.choice(("name", "deleter"))] = draw.choice(("dltensor", "used_dltensor", "dltensor_versioned", ""))
    said["strides"] = said["strides"] and (said["strides"] + [1] * 9)[: len(said["sizes"])]
    return json.dumps(said).encode()


def take_capsule(path: pathlib.Path):
    """The tensor of a capsule that is made as the file says; a tensor lets go of it once, a refused one not at all."""
    said, calls = json.loads(path.read_bytes()), []
    memory = (ctypes.c_uint8 * (8 * ROOM))()
    # Truth values that are none, and numbers of every kind.
    memory[:] = [255 - n % 256 for n in range(8 * ROOM)]
    made = Versioned(1, 0, None, DELETER(lambda _: calls.append(1)) if said["deleter"] else DELETER(), 0)
    lists = [None if of is None else (ctypes.c_int64 * len(of))(*of) for of in (said["sizes"], said["strides"])]
    made.tensor = DLTensor(ctypes.addressof(memory), 1, 0, len(said["sizes"]), 2, 32, 1, *lists, 0)
    for name, value in said["fields"].items():
        setattr(made if hasattr(made, name) else made.tensor, name, value)
    name = ctypes.create_string_buffer(said["name"].encode())
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    old = Old(made.tensor, None, ctypes.cast(made.deleter, ctypes.c_void_p))
    capsule = new(ctypes.addressof(old if said["name"] == "dltensor" else made), name, None)
    is_taken = True
    try:
        touch(fl.from_dlpack(capsule))
    except BaseException:
        is_taken = False
        raise
    finally:
        if len(calls) != int(is_taken and bool(said["deleter"])):
            raise AssertionError(f"taken {is_taken}, and let go {len(calls)} times")


# --- the readers ---

Reader = collections.namedtuple("Reader", "files mutated load refusals may_have_holes")


def _faulty(path: pathlib.Path):
    """Has the faults that are looked for, so that a test can see them found."""
    first = path.read_bytes()[:1]
    if first == b"e":
        raise IndexError("of another class")
    if first == b"s":
        signal.raise_signal(signal.SIGSEGV)
    if first == b"h":
        time.sleep(60)
    if first == b"m":
        return bytearray(2 * MEMORY)
    return first


READERS = {
    "safetensors": Reader(safetensors_files, mutated_safetensors, fl.load, ValueError, True),
    "pt": Reader(pytorch_files, mutated_pytorch, fl.load, ValueError, True),
    # What a pickle says of other things than tensors is Python's to refuse.
    "pickle": Reader(pickles, mutated_pickle, load_pickle, Exception, False),
    "message": Reader(messages, mutated_message, open_message, (RuntimeError, OSError), False),
    "dlpack": Reader(capsules, mutated_capsule, take_capsule, (BufferError, ValueError, RuntimeError), False),
}
FAULTY = {f"faulty-{kind}": Reader(lambda kind=kind: [kind[:1].encode()], lambda draw, data: data, _faulty, ValueError, False)
          for kind in ("error", "signal", "hang", "memory")}  # fmt: skip


def case(name: str, seed: int, number: int) -> tuple[bytes, bool]:
    """A mutated file, and whether it is to be made longer by a hole."""
    draw = random.Random(f"{name} {seed} {number}")
    reader = (READERS | FAULTY)[name]
    data = reader.mutated(draw, draw.choice(reader.files()))
    return data, reader.may_have_holes and draw.random() < 0.02


def touch(value, depth: int = 0) -> None:
    """Reads the elements of all tensors that were loaded: they lie in memory that is there."""
    if isinstance(value, fl.Tensor):
        if not value.is_meta and value.numel() < 100_000:
            value.detach().to(fl.float64).sum().item()
    elif isinstance(value, dict) and depth < 5:
        for item in value.values():
            touch(item, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 5:
        for item in value:
            touch(item, depth + 1)


def outcome(reader: Reader, path: pathlib.Path, has_hole: bool) -> str:
    refusals = (reader.refusals, MemoryError) if has_hole else reader.refusals
    try:
        touch(reader.load(path))
    except refusals as error:
        is_ours = not isinstance(error, SystemError) and "internal error" not in str(error)
        allowed = is_ours and (has_hole or reader.refusals is Exception or not isinstance(error, MemoryError))
        return "refused" if allowed else f"{type(error).__name__}: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "read"


def child(name: str, seed: int, first: int, count: int, keep: str) -> None:
    """Says of each case what came of it; the parent knows of which one nothing was said."""
    reader = (READERS | FAULTY)[name]
    path = pathlib.Path(keep)
    reader.files()
    in_use = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, in_use + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, first + count):
        data, has_hole = case(name, seed, number)
        path.write_bytes(data)
        if has_hole:
            with open(path, "r+b") as file:
                file.truncate(HOLES)
        signal.alarm(SECONDS)
        said = outcome(reader, path, has_hole)
        signal.alarm(0)
        print(json.dumps([number, said]), flush=True)


def run(name: str, seed: int, first: int, count: int, folder: pathlib.Path, counts: collections.Counter) -> tuple[int, str] | None:
    """Runs cases in a process of their own. The first finding, if there is one."""
    path = folder / "case"
    command = [sys.executable, __file__, "--child", name, str(seed), str(first), str(count), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 60)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    for number, what in said:
        if what not in ("read", "refused"):
            return number, what
        counts[what] += 1
    if done.returncode != 0 or len(said) != count:
        return first + len(said), f"the process ended with {done.returncode}: {done.stderr[-2000:]}"
    return None


def fuzz(name: str, seed: int, seconds: float, keep: pathlib.Path | None, size: int) -> int:
    """Runs one reader for a while; how much it found."""
    counts: collections.Counter = collections.Counter()
    end, first, findings = time.monotonic() + seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        while first == 0 or time.monotonic() < end:
            found = run(name, seed, first, size, pathlib.Path(folder), counts)
            first += size
            if found is not None:
                number, what = found
                findings, first = findings + 1, number + 1
                print(f"{name}: found in --seed {seed} --case {number}: {what}", flush=True)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{name}-{seed}-{number}").write_bytes(case(name, seed, number)[0])
            if findings >= 20 or name in FAULTY:
                break
    print(f"{name}: {counts['read']} read, {counts['refused']} refused, {findings} found", flush=True)
    return findings


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        name, seed, first, count, path = sys.argv[2:]
        child(name, int(seed), int(first), int(count), path)
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", choices=[*READERS, *FAULTY], help="one of them instead of all")
    parser.add_argument("--case", type=int, help="one case instead of as many as there is time for")
    parser.add_argument("--batch", type=int, default=BATCH, help="cases in a process")
    parser.add_argument("--keep", type=pathlib.Path, help="where files go in which something was found")
    given = parser.parse_args()
    names = [given.reader] if given.reader else list(READERS)
    if given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            found = run(names[0], given.seed, given.case, 1, pathlib.Path(folder), collections.Counter())
        print(found or "nothing was found")
        return int(found is not None)
    return int(sum(fuzz(name, given.seed, given.seconds, given.keep, given.batch) for name in names) > 0)


if __name__ == "__main__":
    sys.exit(main())
