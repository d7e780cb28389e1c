"""Tensors that processes share: one memory, few descriptors, nothing left behind by processes that are killed."""

import gc
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import flambeau as fl
import flambeau.multiprocessing as mp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory without a name is Linux's memfd")

METHODS = ["fork", "spawn", "forkserver"]


def add_one(tensor, done=None):
    tensor.add_(1)
    if done is not None:
        done.put(tensor.data_ptr())


def send_back(inbox, outbox):
    while (value := inbox.get()) is not None:
        outbox.put(value)
    # The last message may be received after this process has said so.
    inbox.get()


def test_sharing_in_place():
    x = fl.arange(6.0)
    view = x[2:]
    assert not x.is_shared()
    version = x._version
    assert x.share_memory_() is x and x.is_shared() and view.is_shared() and x._version == version
    view.add_(1)
    assert x.tolist() == [0, 1, 3, 4, 5, 6]
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(1000)
    assert not x.clone().is_shared() and fl.zeros(0).share_memory_().tolist() == []
    assert not fl.zeros(2, device="meta").share_memory_().is_shared()
    with pytest.raises(RuntimeError, match="clone it first"):
        fl.from_numpy(np.ones(3)).share_memory_()


def test_saved_tensors_survive_the_move():
    w = fl.ones(3, requires_grad=True)
    x = fl.arange(3.0)
    loss = (w * x).sum()
    x.share_memory_()
    loss.backward()
    assert w.grad.tolist() == [0, 1, 2]


@pytest.mark.parametrize("method", METHODS)
def test_processes_write_the_same_elements(method):
    x = fl.zeros(1000).share_memory_()
    processes = [mp.get_context(method).Process(target=add_one, args=(x,)) for _ in range(2)]
    for process in processes:
        process.start()
        process.join(60)
        assert process.exitcode == 0
    assert x.tolist() == [2] * 1000


@pytest.mark.parametrize("method", METHODS)
def test_queues_send_handles(method):
    context = mp.get_context(method)
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=send_back, args=(there, back))
    process.start()
    x = fl.arange(100_000.0)
    there.put(x)
    y = back.get(timeout=60)
    assert x.is_shared() and y.is_shared() and y.data_ptr() == x.data_ptr() and y.untyped_storage() == x.untyped_storage()
    values = {
        "view": fl.arange(24).view(2, 3, 4).permute(2, 0, 1)[1:],
        "numpy": fl.from_numpy(np.arange(3.0)),
        "empty": fl.zeros(0, 3),
        "scalar": fl.tensor(2.5),
        "bool": fl.tensor([True, False]),
        "leaf": fl.ones(2, requires_grad=True),
        "parameter": fl.nn.Parameter(fl.ones(3)),
        "pair": [x, x[5:]],
    }
    there.put(values)
    found = back.get(timeout=60)
    for name in ("view", "numpy", "empty", "scalar", "bool", "leaf", "parameter"):
        assert found[name].tolist() == values[name].tolist() and found[name].stride() == values[name].stride()
    assert found["leaf"].requires_grad and isinstance(found["parameter"], fl.nn.Parameter)
    a, b = found["pair"]
    assert b.data_ptr() == a.data_ptr() + 20 and a.data_ptr() == x.data_ptr()
    there.put(None)
    there.put(None)
    process.join(60)
    assert process.exitcode == 0


def test_history_is_not_sent():
    x = fl.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf"):
        mp.reductions.ForkingPickler.dumps(x)
    assert mp.reductions.ForkingPickler.loads(mp.reductions.ForkingPickler.dumps(x.detach())).tolist() == [2, 2]


def give(queue, count):
    for i in range(count):
        # Nobody holds it here when it is received.
        queue.put(fl.full((1000,), float(i)))
    queue.put(None)
    time.sleep(60)


def test_messages_hold_what_they_send():
    queue = mp.Queue()
    process = mp.Process(target=give, args=(queue, 500), daemon=True)
    process.start()
    time.sleep(0.2)
    received = []
    while (x := queue.get(timeout=60)) is not None:
        received.append(x)
    assert [x[0].item() for x in received] == list(range(500)) and all(x.eq(x[0]).all().item() for x in received)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    # What was received outlives its sender.
    assert [x[999].item() for x in received] == list(range(500))


def test_a_sender_that_has_gone_is_an_error():
    queue = mp.Queue()
    process = mp.Process(target=put_and_end, args=(queue,))
    process.start()
    process.join(60)
    with pytest.raises(OSError, match="has ended"):
        queue.get(timeout=60)


def put_and_end(queue):
    queue.put(fl.ones(10))


def run(code, **options):
    options = {"capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run([sys.executable, "-c", code], **options)


def test_a_hundred_thousand_tensors_with_few_descriptors():
    code = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import flambeau as fl, flambeau.multiprocessing as mp, os
tensors = [fl.full((10,), float(i)).share_memory_() for i in range(100_000)]
def child(pipe):
    received = pipe.recv()
    received[77_777].fill_(5)
    pipe.send((len(received), received[99_999].tolist(), len(os.listdir("/proc/self/fd"))))
here, there = mp.Pipe()
process = mp.get_context("fork").Process(target=child, args=(there,))
process.start()
here.send(tensors)
print(*here.recv(), tensors[77_777][0].item(), len(os.listdir("/proc/self/fd")) < 100)
process.join()
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    count, *last, descriptors, written, few = done.stdout.replace("[", "").replace("]", "").replace(",", "").split()
    assert int(count) == 100_000 and set(map(float, last)) == {99_999.0} and int(descriptors) < 100
    assert float(written) == 5 and few == "True"


def test_memory_is_used_again():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        fl.ones(1_000_000).share_memory_()
    # 4 MB each: without another use they would be 1.2 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def named_files():
    return sorted(Path("/dev/shm").iterdir())


STAGES = """
import flambeau as fl, flambeau.multiprocessing as mp, os, signal, sys, time
stage = sys.argv[1]
def child(inbox, outbox):
    if stage == "receiver started": os.kill(os.getpid(), signal.SIGKILL)
    x = inbox.recv()
    if stage == "receiver received": os.kill(os.getpid(), signal.SIGKILL)
    outbox.send(x)
    time.sleep(5)
here, there = mp.Pipe()
x = fl.ones(100_000)
if stage == "before": os.kill(os.getpid(), signal.SIGKILL)
x.share_memory_()
if stage == "shared": os.kill(os.getpid(), signal.SIGKILL)
process = mp.get_context("fork").Process(target=child, args=(there, there), daemon=True)
process.start()
there.close()
try:
    here.send(x)
    if stage == "sent": os.kill(os.getpid(), signal.SIGKILL)
    here.recv()
except (EOFError, BrokenPipeError, ConnectionResetError):
    process.join(); print("receiver gone"); sys.exit()
if stage == "both": os.kill(process.pid, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("stage", ["before", "shared", "sent", "receiver started", "receiver received", "back", "both"])
def test_killed_processes_leave_nothing(stage, tmp_path):
    before = named_files()
    script = tmp_path / "stages.py"
    script.write_text(STAGES)
    # Not a pipe: a child that outlives its parent would hold it.
    with open(tmp_path / "errors", "w+") as errors:
        done = subprocess.run([sys.executable, str(script), stage], stdout=errors, stderr=errors, timeout=120)
    wanted = 0 if stage.startswith("receiver") else -signal.SIGKILL
    assert done.returncode == wanted, (tmp_path / "errors").read_text()
    assert named_files() == before


def train(model, seed):
    fl.manual_seed(seed)
    fl.set_num_threads(1)
    optimizer = fl.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(200):
        x = fl.randn(16, 2)
        y = x @ fl.tensor([[2.0], [-3.0]]) + 1
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()


@pytest.mark.parametrize("method", METHODS)
def test_hogwild(method):
    model = fl.nn.Linear(2, 1)
    assert model.share_memory() is model
    processes = [mp.get_context(method).Process(target=train, args=(model, seed)) for seed in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    np.testing.assert_allclose(model.weight.detach().numpy(), [[2, -3]], atol=1e-3)
    np.testing.assert_allclose(model.bias.detach().numpy(), [1], atol=1e-3)


def hold_and_check(pipe, x):
    pipe.send("ready")
    pipe.recv()
    pipe.send(x.tolist())


def test_what_a_child_was_born_with_is_never_used_again():
    x = fl.full((1000,), 7.0).share_memory_()
    here, there = mp.Pipe()
    process = mp.get_context("fork").Process(target=hold_and_check, args=(there, x))
    process.start()
    assert here.recv() == "ready"
    del x
    gc.collect()
    others = [fl.full((1000,), 1.0).share_memory_() for _ in range(2000)]
    here.send("go")
    assert here.recv() == [7.0] * 1000
    process.join(60)
    assert len(others) == 2000


def in_process(index, shared, fails):
    if fails and index == 1:
        raise ValueError("from process one")
    shared[index] = index + 1


def test_spawn():
    shared = fl.zeros(3).share_memory_()
    mp.spawn(in_process, args=(shared, False), nprocs=3)
    assert shared.tolist() == [1, 2, 3]
    with pytest.raises(mp.ProcessRaisedException, match="from process one"):
        mp.spawn(in_process, args=(shared, True), nprocs=2)


def test_loaders_send_handles():
    data = fl.utils.data.TensorDataset(fl.arange(64.0).view(32, 2), fl.arange(32))
    seen = []
    for x, y in fl.utils.data.DataLoader(data, batch_size=8, num_workers=2):
        assert x.is_shared() and y.is_shared()
        seen += y.tolist()
        assert x[:, 0].tolist() == [2.0 * i for i in y.tolist()]
    assert seen == list(range(32))
