"""A save is whole or was not: from several threads, beside those who write or resize, with links at the path, and when it is cut off."""

import os
import pathlib
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

import flambeau as fl

SIZE = 200_000


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def in_threads(*works, seconds=1.5):
    """Runs each again and again on a thread of its own; what they raised."""
    raised, end = [], time.monotonic() + seconds

    def repeat(work):
        step = 0
        while time.monotonic() < end and not raised:
            try:
                work(step)
            except BaseException as error:
                raised.append(error)
            step += 1

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_threads_that_save_to_one_path(tmp_path):
    path = tmp_path / "file"

    def saver(number):
        tensors = {"a": fl.full((SIZE,), float(number)), "b": fl.full((10,), number)}
        return lambda step: fl.save(tensors, path)

    def reader(step):
        if path.exists():
            found = fl.load(path)
            assert found["a"].unique().tolist() == found["b"].unique().tolist()

    assert in_threads(*map(saver, range(4)), reader) == []
    assert os.listdir(tmp_path) == ["file"]


def test_a_save_beside_writers_holds_elements_of_one_moment(tmp_path):
    x, base = fl.zeros(SIZE), fl.zeros(2, SIZE)
    tensors = {"x": x, "base": base, "row": base[1], "transposed": base.t(), "every other": x[::2], "flags": fl.zeros(SIZE, dtype=fl.bool)}

    def writer(step):
        x.fill_(step)
        base.fill_(step)
        tensors["flags"].fill_(step % 2)

    saves = []

    def saver(step):
        fl.save(tensors, tmp_path / "file")
        found = fl.load(tmp_path / "file")
        assert [len(found[name].unique()) for name in tensors] == [1] * len(tensors)
        # Views of one tensor are of one moment too.
        assert found["base"][0, 0] == found["row"][0] == found["transposed"][0, 0] and found["x"][0] == found["every other"][0]
        saves.append(found["x"][0].item())

    assert in_threads(writer, writer, saver) == []
    assert len(set(saves)) > 1


BESIDE_RESIZE = """
import random, sys, threading, time
import flambeau as fl
x, end, path = fl.ones(1000), time.monotonic() + 2, sys.argv[1]
def resize():
    draw = random.Random(1)
    while time.monotonic() < end:
        n = draw.randrange(1, 400_000)
        x.resize_(n)
        x.resize_(n // 7 + 1, 7)
thread = threading.Thread(target=resize)
thread.start()
saved = 0
while time.monotonic() < end:
    fl.save({"x": x, "view": x.view(-1)[:3]}, path)
    found = fl.load(path)
    assert found["view"].shape == (3,) or x.numel() < 3
    saved += 1
thread.join()
print(saved)
"""


def test_a_save_beside_resize(tmp_path):
    done = subprocess.run([sys.executable, "-c", BESIDE_RESIZE, str(tmp_path / "file")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and int(done.stdout) > 5, done.stderr


def test_no_name_is_known_beforehand(tmp_path):
    """Links under the names that were used once, and under all that can be guessed from the path and the process."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "folder"
    folder.mkdir()
    guesses = [f"file.{os.getpid()}.tmp", "file.tmp", ".file.tmp", *(f".file.{os.getpid()}-{n}.tmp" for n in range(200))]
    for name in guesses:
        (folder / name).symlink_to(victim)
    for step in range(20):
        fl.save({"x": fl.full((3,), step)}, folder / "file")
    assert victim.read_text() == "precious"
    assert sorted(os.listdir(folder)) == sorted([*guesses, "file"])


def test_a_link_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for target in (victim, tmp_path / "absent"):
        link = tmp_path / f"link to {target.name}"
        link.symlink_to(target)
        fl.save({"x": fl.ones(2)}, link)
        assert not link.is_symlink() and fl.load(link)["x"].tolist() == [1, 1]
    assert victim.read_text() == "precious" and not (tmp_path / "absent").exists()


def test_permissions_are_those_of_the_file_of_before(tmp_path):
    draw = random.Random(2)
    before = os.umask(0o022)
    try:
        for _ in range(40):
            path = tmp_path / "file"
            permissions, umask = draw.randrange(0o1000), draw.choice((0o000, 0o022, 0o027, 0o077))
            os.umask(umask)
            path.unlink(missing_ok=True)
            fl.save({"x": fl.ones(2)}, path)
            assert mode(path) == 0o666 & ~umask
            path.chmod(permissions)
            fl.save({"x": fl.zeros(2)}, path)
            assert mode(path) == permissions
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="expected the name of a file"):
            fl.save({"x": fl.ones(2)}, tmp_path / name)
    with pytest.raises(FileNotFoundError):
        fl.save({"x": fl.ones(2)}, tmp_path / "absent" / "file")
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]


def test_long_names_can_be_saved_to(tmp_path):
    path = tmp_path / ("x" * 255)
    fl.save({"x": fl.ones(2)}, path)
    assert fl.load(path)["x"].tolist() == [1, 1]


INTERRUPTED = """
import signal, sys
import flambeau as fl
signal.signal(signal.SIGINT, signal.default_int_handler)  # Which who started the tests may have had ignored.
x, step, interrupted = fl.zeros(2_000_000), 0, 0
print("ready", flush=True)
while interrupted < 8:
    try:
        while True:
            step += 1
            fl.save({"x": x.fill_(step), "y": x}, sys.argv[1])
    except KeyboardInterrupt:
        interrupted += 1
        print(interrupted, flush=True)
"""


def test_a_save_that_is_cut_off_leaves_nothing_behind(tmp_path):
    path, draw = tmp_path / "file", random.Random(4)
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        for number in range(1, 9):
            time.sleep(0.02 + 0.1 * draw.random())
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == f"{number}\n"
    assert child.returncode == 0 and os.listdir(tmp_path) == ["file"]
    found = fl.load(path)
    assert len(found["x"].unique()) == 1 and found["x"].equal(found["y"])


def test_a_full_disk_leaves_the_file_of_before(tmp_path):
    path = tmp_path / "file"
    fl.save({"x": fl.ones(2)}, path)
    code = (
        "import resource, signal, sys; import flambeau as fl\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: fl.save({'x': fl.ones(100_000)}, sys.argv[1])\n"
        "except OSError as error: print(error.errno)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.stdout == "27\n", done.stderr
    assert os.listdir(tmp_path) == ["file"] and fl.load(path)["x"].tolist() == [1, 1]
    assert resource.getrlimit(resource.RLIMIT_FSIZE) is not None


def test_bools_of_other_bytes_are_saved_as_true(tmp_path):
    draw = random.Random(6)
    values = [draw.choice((0, 1, 2, 128, 255)) for _ in range(300)]
    x = fl.tensor(values, dtype=fl.uint8).view(fl.bool)
    fl.save({"x": x, "view": x.view(100, 3).t()}, tmp_path / "file")
    found = fl.load(tmp_path / "file")
    expected = [value != 0 for value in values]
    assert found["x"].tolist() == expected and found["view"].t().flatten().tolist() == expected


def test_paths_of_every_kind(tmp_path):
    for path in (str(tmp_path / "a"), tmp_path / "b", os.fsencode(tmp_path / "c"), pathlib.PurePath(tmp_path, "größe")):
        fl.save({"x": fl.ones(1), "größe": fl.zeros(1)}, path)
        assert sorted(fl.load(path)) == ["größe", "x"]
