"""Worker processes of a loader: the same batches as without, errors that arrive, and nothing left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import flambeau
from flambeau import nn
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


class Squares(Dataset):
    """Sample `i` is `i` squared."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return flambeau.tensor(float(index * index))


class Special(Squares):
    """Does something to the worker at one sample."""

    def __init__(self, count, at, action):
        super().__init__(count)
        self.at, self.action = at, action

    def __getitem__(self, index):
        if index == self.at:
            self.action()
        return super().__getitem__(index)


class Unmakeable(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def fail_with(error):
    def action():
        raise error

    return action


class Parts(IterableDataset):
    """Numbers, of which each worker gives its part."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        begin, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(begin, self.count, step))


class Seeds(Dataset):
    """What a worker knows of itself."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        info = get_worker_info()
        return os.getpid(), info.id, info.num_workers, info.seed % 2**31, flambeau.rand(1).item()


def alive(pid):
    """Whether a process runs; one that has ended but was not waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, seconds=5.0):
    """Whether all of them end within so many seconds."""
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_those_of_one_process(workers, size, persistent):
    loader = DataLoader(Squares(23), batch_size=size, num_workers=workers, persistent_workers=persistent)
    for _ in range(2):
        batches = [batch.tolist() for batch in loader]
        expected = [[float(i * i) for i in range(begin, min(begin + size, 23))] for begin in range(0, 23, size)]
        assert batches == expected
    assert len(loader) == len(expected)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_every_method_to_start_a_process(context):
    loader = DataLoader(Squares(6), batch_size=2, num_workers=2, multiprocessing_context=context)
    assert [batch.tolist() for batch in loader] == [[0.0, 1.0], [4.0, 9.0], [16.0, 25.0]]


def test_tensors_of_every_kind_pass():
    kinds = (flambeau.bfloat16, flambeau.float16, flambeau.float64, flambeau.int8, flambeau.bool, flambeau.int64)
    rows = [flambeau.tensor([[0, 1], [1, 1]]).to(kind).t() for kind in kinds]
    rows += [flambeau.empty(0, 3), flambeau.tensor(7), flambeau.arange(10.0)[::3], nn.Parameter(flambeau.ones(2))]
    for sent, (came,) in zip(rows, DataLoader(rows, num_workers=1, collate_fn=list)):
        assert came.dtype == sent.dtype and came.shape == sent.shape and came.tolist() == sent.tolist()
        assert came.requires_grad == sent.requires_grad and type(came) is type(sent)


def test_shuffled_order_is_that_of_one_process():
    def order(workers):
        generator = flambeau.Generator()
        generator.manual_seed(5)
        return [b.tolist() for b in DataLoader(Squares(20), 3, shuffle=True, num_workers=workers, generator=generator)]

    assert order(2) == order(0)
    assert sorted(sum(order(2), [])) == [float(i * i) for i in range(20)]


def test_any_order_gives_every_batch_once():
    batches = [b.item() for b in DataLoader(Squares(30), num_workers=3, in_order=False, prefetch_factor=4)]
    assert sorted(batches) == [float(i * i) for i in range(30)]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_iterable_data_sets_are_divided(workers, drop_last):
    loader = DataLoader(Parts(11), batch_size=2, num_workers=workers, drop_last=drop_last)
    numbers = [number for batch in loader for number in batch.tolist()]
    each = [len(range(w, 11, max(workers, 1))) for w in range(max(workers, 1))]
    expected = sum(n - n % 2 for n in each) if drop_last else 11
    assert len(numbers) == len(set(numbers)) == expected


@pytest.mark.parametrize("size", [1000, 2_000_000])
def test_batches_of_any_size_pass(size):
    data = TensorDataset(flambeau.arange(4 * size).reshape(4, size))
    for number, (batch,) in enumerate(DataLoader(data, num_workers=2)):
        assert batch.shape == (1, size)
        assert batch[0, 0].item() == number * size and batch[0, -1].item() == (number + 1) * size - 1


def test_many_long_tasks_do_not_block():
    """Tasks that fill a pipe while the worker fills the opposite one: a deadlock, unless one of both reads meanwhile."""
    indices = [list(range(20_000)) for _ in range(12)]
    loader = DataLoader(Squares(20_000), batch_sampler=indices, num_workers=1, prefetch_factor=12, collate_fn=len)
    assert list(loader) == [20_000] * 12


def test_workers_know_themselves_and_have_seeds_of_their_own():
    rows = [row for row in DataLoader(Seeds(), batch_size=None, num_workers=2)]
    assert get_worker_info() is None
    assert {row[1] for row in rows} == {0, 1} and {row[2] for row in rows} == {2}
    assert len({row[0] for row in rows}) == 2 and os.getpid() not in {row[0] for row in rows}
    assert len({row[3] for row in rows}) == 2
    assert len({row[4] for row in rows}) == 8


def test_seeds_repeat_with_the_process():
    def draw():
        flambeau.manual_seed(3)
        return [row[4] for row in DataLoader(Seeds(), batch_size=None, num_workers=2)]

    assert draw() == draw()


def test_init_function_runs_in_each_worker(tmp_path):
    def init(worker):
        (tmp_path / f"{worker} {os.getpid()}").touch()

    assert len(list(DataLoader(Squares(4), num_workers=2, worker_init_fn=init))) == 4
    assert sorted(path.name.split()[0] for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("error, expected", [(ValueError("far off"), ValueError), (KeyError("far off"), KeyError),
                                             (Unmakeable("far off", 2), RuntimeError)])
def test_an_exception_arrives_with_its_traceback(error, expected):
    loader = DataLoader(Special(8, 3, fail_with(error)), num_workers=2)
    with pytest.raises(expected) as caught:
        list(loader)
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 1" in text
    assert "in __getitem__" in text and "far off" in text and "\n" in text


def test_an_exception_of_a_local_class_arrives():
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match="Caught Local|Caught RuntimeError"):
        list(DataLoader(Special(4, 1, fail_with(Local("here"))), num_workers=1))


def test_a_failing_init_function_arrives():
    with pytest.raises(ValueError, match="no start"):
        list(DataLoader(Squares(6), num_workers=2, worker_init_fn=lambda _: fail_with(ValueError("no start"))()))


def test_what_cannot_be_sent_is_an_error():
    with pytest.raises(Exception, match="while sending a batch"):
        list(DataLoader(Squares(4), num_workers=1, collate_fn=lambda batch: lambda: batch))


def test_a_run_goes_on_after_an_exception():
    batches = iter(DataLoader(Special(6, 2, fail_with(ValueError("no"))), num_workers=2))
    assert [next(batches).item() for _ in range(2)] == [0.0, 1.0]
    with pytest.raises(ValueError, match="no"):
        next(batches)
    assert [batch.item() for batch in batches] == [9.0, 16.0, 25.0]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_is_an_error(kill, persistent):
    loader = DataLoader(
        Special(40, 5, lambda: os.kill(os.getpid(), kill)), num_workers=2, persistent_workers=persistent
    )
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: killed by signal {int(kill)}"):
        list(loader)
    assert time.monotonic() - begin < 10


def test_a_worker_that_exits_is_an_error():
    with pytest.raises(RuntimeError, match="exited unexpectedly: exit code 3"):
        list(DataLoader(Special(4, 2, lambda: os._exit(3)), num_workers=1))


def test_a_slow_worker_times_out():
    loader = DataLoader(Special(4, 1, lambda: time.sleep(60)), num_workers=1, timeout=0.5)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after 0.5 seconds"):
        list(loader)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_end_with_their_loader(persistent):
    loader = DataLoader(Seeds(), batch_size=None, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    pids = {next(batches)[0] for _ in range(4)}
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    del batches, loader
    gc.collect()
    assert gone(pids)


def test_persistent_workers_stay():
    loader = DataLoader(Seeds(), batch_size=None, num_workers=2, persistent_workers=True)
    first, second = ({row[0] for row in loader} for _ in range(2))
    assert first == second


def test_a_run_that_was_left_early_does_not_reach_into_the_next():
    loader = DataLoader(Squares(40), num_workers=2, persistent_workers=True, prefetch_factor=8)
    for batch in loader:
        assert batch.item() == 0.0
        break
    assert [batch.item() for batch in loader] == [float(i * i) for i in range(40)]


def test_two_runs_side_by_side():
    loader = DataLoader(Squares(9), num_workers=2)
    assert [(a.item(), b.item()) for a, b in zip(loader, loader)] == [(float(i * i),) * 2 for i in range(9)]


PARENT = """
    import os, signal, sys, time
    from flambeau.utils.data import DataLoader, Dataset

    # A shell has what it starts in the background ignore this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class Pids(Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            if index > 20:
                time.sleep(600)
            return os.getpid()

    loaders = [DataLoader(Pids(), batch_size=None, num_workers=2) for _ in range(2)]
    runs = [iter(loader) for loader in loaders]
    print(*{next(run) for run in runs for _ in range(4)}, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_a_killed_process(kill):
    program = os.environ.get("FLAMBEAU_TEST_PRELUDE", "") + textwrap.dedent(PARENT)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 4 and all(alive(pid) for pid in pids)
        parent.send_signal(kill)
        parent.wait(15)
        assert gone(pids, 10)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
