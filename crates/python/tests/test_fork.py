"""Children made by fork work at once: after operators on many threads, during them, after a backward pass."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import flambeau as fl

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Seconds that a child has for what takes it milliseconds.
TIMEOUT = 60


def in_child(work):
    """Runs `work` in a forked child, which must end in time and say yes."""
    child = os.fork()
    if child == 0:
        ending = 1
        try:
            ending = 0 if work() else 2
        finally:
            # No clearing up: this is a copy of the tests' own process.
            os._exit(ending)
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def threaded_work():
    x = fl.arange(200_000, dtype=fl.float64)
    total = (x * 2).sum().item()
    product = fl.ones(128, 128) @ fl.ones(128, 128)
    ordered = x.flip(0).sort().values
    return total == 199_999 * 200_000 and product[0, 0].item() == 128 and ordered[-1].item() == 199_999


def backward_work():
    w = fl.ones(128, 128, requires_grad=True)
    ((w @ w) * 2).sum().backward()
    return w.grad[0, 0].item() == 512


@pytest.fixture(autouse=True)
def threads():
    before = fl.get_num_threads()
    fl.set_num_threads(4)
    yield
    fl.set_num_threads(before)


def test_after_threaded_operators():
    assert threaded_work()
    for _ in range(5):
        assert in_child(threaded_work) == 0
    assert threaded_work()


def test_after_backward():
    assert backward_work()
    for _ in range(5):
        assert in_child(backward_work) == 0
    assert backward_work()


def test_in_grandchildren():
    assert threaded_work()
    assert in_child(lambda: threaded_work() and in_child(lambda: threaded_work() and in_child(backward_work) == 0) == 0) == 0


@pytest.mark.parametrize("work", [threaded_work, backward_work])
def test_during_operators_of_other_threads(work):
    """Other threads allocate, free, wait for each other and run backwards all the time."""
    stop = threading.Event()
    failures = []
    shared = fl.zeros(20_000)

    def busy(seed):
        while not stop.is_set():
            x = fl.rand(50_000 + seed)
            y = [fl.ones(n) for n in (1, 10, 1000, 30_000)]
            shared.add_(1)
            w = fl.ones(64, 64, requires_grad=True)
            (w @ w).sum().backward()
            if not (x.sum().item() > 0 and y[0].item() == 1):
                failures.append(seed)

    others = [threading.Thread(target=busy, args=(i,)) for i in range(4)]
    for other in others:
        other.start()
    try:
        for _ in range(10):
            assert in_child(work) == 0
    finally:
        stop.set()
        for other in others:
            other.join()
    assert not failures and work()


def test_threads_of_children():
    def work():
        results = []
        threads = [threading.Thread(target=lambda: results.append(threaded_work())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results == [True] * 3

    assert work()
    assert in_child(work) == 0


def test_what_a_lock_of_the_parent_keeps_is_an_error():
    """A tensor that another thread is writing at the moment of the fork stays locked in the child: an error, not a wait."""
    x = fl.zeros(30_000_000)
    started = threading.Event()

    def write():
        started.set()
        for _ in range(10):
            x.add_(1)

    def work():
        try:
            x.add_(1)
        except RuntimeError as error:
            return "forked" in str(error)
        # The fork fell between two operators.
        return True

    writer = threading.Thread(target=write)
    writer.start()
    started.wait()
    time.sleep(0.01)
    try:
        assert in_child(work) == 0
    finally:
        writer.join()


def test_modes_and_generators_are_inherited():
    fl.manual_seed(3)
    expected = fl.rand(4).tolist()
    fl.manual_seed(3)
    with fl.no_grad():
        assert in_child(lambda: not fl.is_grad_enabled() and fl.rand(4).tolist() == expected) == 0
    assert fl.rand(4).tolist() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="shared memory without a name is Linux's memfd")
def test_shared_memory_during_forks():
    stop = threading.Event()

    def busy():
        kept = []
        while not stop.is_set():
            kept = [fl.ones(100).share_memory_() for _ in range(50)]
        return kept

    others = [threading.Thread(target=busy) for _ in range(3)]
    for other in others:
        other.start()
    x = fl.zeros(10).share_memory_()
    try:
        for _ in range(20):
            assert in_child(lambda: x.add_(1).is_shared() and fl.ones(1000).share_memory_().sum().item() == 1000) == 0
    finally:
        stop.set()
        for other in others:
            other.join()
    assert x.tolist() == [20.0] * 10


def test_threads_that_compute_while_the_interpreter_ends():
    """PyTorch aborts here, as of 2.15: the thread is unwound by the C library when it wants the lock back."""
    code = """
import threading, time
import flambeau as fl
def busy():
    while True:
        fl.ones(100_000).add_(1)
        fl.ones(1000).share_memory_()
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
time.sleep(0.2)
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT)
        assert (done.returncode, done.stderr) == (0, "")
