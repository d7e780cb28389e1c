"""Training on several processes: collectives, errors instead of waiting, data parallel training, the launcher."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

import flambeau
from flambeau import distributed as dist

PACKAGE = str(Path(flambeau.__file__).parents[1])


def launch(tmp_path, code, *options, timeout=60):
    """Runs a program on ranks, and returns the finished launcher."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "flambeau.distributed.run", *options, str(program), str(tmp_path)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)


def on_ranks(tmp_path, count, code):
    """Runs a program on ranks, all of which must succeed, and returns what they printed."""
    done = launch(tmp_path, HEAD + textwrap.dedent(code), "--nproc-per-node", str(count))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


HEAD = """
import sys, time
import flambeau as fb
from flambeau import distributed as dist, nn, optim
from flambeau.distributed import ReduceOp

dist.init_process_group(timeout=20)
rank, size = dist.get_rank(), dist.get_world_size()
def fails(call, words):
    try:
        call()
    except (RuntimeError, ValueError, OSError) as error:
        assert words in str(error), error
        return error
    raise AssertionError(words)
"""


def test_collectives(tmp_path):
    on_ranks(
        tmp_path,
        3,
        """
        x = fb.full((4,), float(rank + 1))
        work = dist.all_reduce(x, async_op=True)
        assert work.wait() and work.is_completed() and work.is_success()
        assert x.tolist() == [6.0] * 4
        dist.all_reduce(x, ReduceOp.AVG)
        assert x.tolist() == [6.0] * 4
        x = fb.tensor([rank])
        dist.all_reduce(x, op=ReduceOp.MAX)
        dist.broadcast(y := fb.tensor([rank * 1.5]), src=1)
        assert x.item() == 2 and y.item() == 1.5
        parts = [fb.zeros(2) for _ in range(size)]
        dist.all_gather(parts, fb.tensor([rank, 10.0]))
        assert [p.tolist() for p in parts] == [[r, 10.0] for r in range(size)]
        whole = fb.zeros(size, 2)
        dist.all_gather_into_tensor(whole, fb.tensor([rank, 10.0]))
        assert whole.tolist() == [[r, 10.0] for r in range(size)]
        out = fb.zeros(1)
        dist.reduce_scatter(out, [fb.tensor([float(r * 10 + rank)]) for r in range(size)])
        assert out.item() == 30 * rank + 3
        dist.reduce_scatter_tensor(out, fb.arange(3.0))
        assert out.item() == 3 * rank
        dist.scatter(out, [fb.tensor([5.0 + r]) for r in range(size)] if rank == 2 else None, src=2)
        assert out.item() == 5 + rank
        dist.gather(fb.tensor([float(rank)]), parts := [fb.zeros(1) for _ in range(size)] if rank == 0 else None, dst=0)
        assert rank or [p.item() for p in parts] == [0, 1, 2]
        dist.reduce(z := fb.tensor([1.0]), dst=1)
        assert z.item() == (3.0 if rank == 1 else 1.0)
        got = fb.zeros(3)
        dist.all_to_all_single(got, fb.tensor([rank * 10.0 + r for r in range(size)]))
        assert got.tolist() == [r * 10.0 + rank for r in range(size)]
        dist.barrier()
        dist.monitored_barrier(timeout=10)
        """,
    )


def test_messages_objects_and_groups(tmp_path):
    on_ranks(
        tmp_path,
        3,
        """
        left, right = (rank - 1) % size, (rank + 1) % size
        got = fb.zeros(2)
        works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, left), dist.P2POp(dist.isend, fb.full((2,), float(rank)), right)])
        for work in works:
            work.wait()
        assert got.tolist() == [left] * 2
        if rank == 0:
            senders = sorted(dist.recv(got) for _ in range(2))
            assert senders == [1, 2]
        else:
            dist.send(fb.zeros(2), 0)
        objects = [None] * size
        dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
        assert objects == [{"rank": r, "text": "x" * r} for r in range(size)]
        found = [("a", 1), None] if rank == 2 else [None, None]
        dist.broadcast_object_list(found, src=2)
        assert found == [("a", 1), None]
        dist.scatter_object_list(mine := [None], [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
        assert mine == [f"for {rank}"]
        group = dist.new_group([0, 2])
        assert dist.get_rank(group) == {0: 0, 1: -1, 2: 1}[rank]
        x = fb.tensor([rank + 1])
        dist.all_reduce(x, group=group)
        assert x.item() == (2 if rank == 1 else 4)
        assert rank == 1 or (dist.get_global_rank(group, 1), dist.get_group_rank(group, 2)) == (2, 1)
        """,
    )


def test_errors_name_ranks_and_calls(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        x = fb.zeros(3)
        fails(lambda: dist.broadcast(x, src=5), "Global rank 5 is not part of group")
        fails(lambda: dist.all_reduce(x, ReduceOp.BOR), "BOR")
        fails(lambda: dist.all_gather([x], x), "expected 2 tensors, one for each rank, but got 1")
        begin = time.monotonic()
        call = (lambda: dist.all_reduce(x)) if rank == 0 else (lambda: dist.all_reduce(fb.zeros(4)))
        error = fails(call, "all_reduce number 0 of float32")
        assert "[3]" in str(error) and "[4]" in str(error), error
        assert time.monotonic() - begin < 10
        fails(dist.barrier, "broken")
        """,
    )


def test_a_rank_that_is_killed_ends_the_job_and_is_named(tmp_path):
    code = """
    import os, signal
    x = fb.zeros(3)
    dist.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(x)
    except dist.DistBackendError as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(7)
    """
    begin = time.monotonic()
    done = launch(tmp_path, HEAD + textwrap.dedent(code), "--nproc-per-node", "2")
    assert done.returncode != 0 and time.monotonic() - begin < 30
    assert "rank 1 ended with signal 9 (SIGKILL)" in done.stderr, done.stderr


def test_the_launcher_restarts_a_job(tmp_path):
    code = """
    import os, pathlib
    folder = pathlib.Path(sys.argv[1])
    dist.barrier()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if rank == 1 and attempt == 0:
        os._exit(3)
    dist.barrier()
    (folder / f"done{rank}").write_text(f"{attempt} {os.environ['LOCAL_RANK']} {os.environ['WORLD_SIZE']}")
    """
    done = launch(tmp_path, HEAD + textwrap.dedent(code), "--nproc-per-node=2", "--max-restarts=2")
    assert done.returncode == 0, done.stderr
    assert "rank 1 ended with exit code 3; 2 restarts left" in done.stderr
    assert [(tmp_path / f"done{rank}").read_text() for rank in (0, 1)] == ["1 0 2", "1 1 2"]


TRAIN = """
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.distributed.optim import ZeroRedundancyOptimizer

def train(sharded):
    fb.manual_seed(rank)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4))
    if rank == 0:
        fb.manual_seed(7)
        model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4))
    model = DistributedDataParallel(model, bucket_cap_mb=0.001, deterministic=True)
    make = {"lr": 0.01}
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, **make) if sharded else optim.AdamW(model.parameters(), **make)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)
    own = 4 // size
    for step in range(5):
        optimizer.zero_grad()
        for number in range(own):
            batch = fb.sin(fb.arange(100.0).reshape(5, 20) * (step * 4 + rank * own + number + 1))
            if number + 1 < own:
                with model.no_sync():
                    (model(batch) ** 2).mean().backward()
            else:
                (model(batch) ** 2).mean().backward()
        optimizer.step()
        schedule.step()
    return model, optimizer

model, optimizer = train(False)
values = fb.cat([p.detach().flatten() for p in model.parameters()]).tolist()
sharded_model, sharded = train(True)
assert fb.cat([p.detach().flatten() for p in sharded_model.parameters()]).tolist() == values
sharded.consolidate_state_dict()
if rank == 0:
    mine, expected = sharded.state_dict()["state"], optimizer.state_dict()["state"]
    assert mine.keys() == expected.keys()
    assert all(fb.equal(mine[k][n], expected[k][n]) for k in mine for n in ("exp_avg", "exp_avg_sq"))
    print("VALUES", values)
def elements(state):
    return sum(of_one["exp_avg"].numel() for of_one in state.values())

held, whole = elements(sharded.optim.state), elements(optimizer.state)
assert held <= whole / size + max(p.numel() for p in model.parameters()), (held, whole)
"""


def test_one_two_and_four_ranks_train_to_the_same_bits(tmp_path):
    found = set()
    for count in (1, 2, 4):
        text = on_ranks(tmp_path, count, TRAIN)
        found.add(next(line for line in text.splitlines() if line.startswith("VALUES")))
    assert len(found) == 1


def test_gradients_are_averages_and_no_sync_is_local(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        from flambeau.nn.parallel import DistributedDataParallel
        layer = nn.Linear(3, 1, bias=False)
        model = DistributedDataParallel(layer, gradient_as_bucket_view=True)
        x = fb.tensor([[1.0, 2.0, 3.0]]) * (rank + 1)
        model(x).sum().backward()
        assert layer.weight.grad.tolist() == [[1.5, 3.0, 4.5]]
        layer.weight.grad = None
        with model.no_sync():
            model(x).sum().backward()
        assert layer.weight.grad.tolist() == x.tolist()
        model(x).sum().backward()
        assert layer.weight.grad.tolist() == [[3.0, 6.0, 9.0]]
        layer.weight.grad = None
        compressed = DistributedDataParallel(nn.Linear(3, 1, bias=False), compression=fb.bfloat16)
        compressed(x).sum().backward()
        assert compressed.module.weight.grad.tolist() == [[1.5, 3.0, 4.5]]
        """,
    )


def test_fully_sharded_training_has_the_bits_of_data_parallel(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
        from flambeau.nn.parallel import DistributedDataParallel

        def made(sharded):
            fb.manual_seed(3)
            blocks = [nn.Sequential(nn.Linear(11, 17), nn.Tanh(), nn.Linear(17, 11)) for _ in range(3)]
            if sharded:
                return FSDP(nn.Sequential(*(FSDP(block) for block in blocks), nn.Linear(11, 2)))
            return DistributedDataParallel(nn.Sequential(*blocks, nn.Linear(11, 2)))

        def trained(model):
            optimizer = optim.AdamW(model.parameters(), lr=0.01)
            losses = []
            for step in range(4):
                x = fb.sin(fb.arange(55.0).reshape(5, 11) * (step * size + rank + 1))
                loss = model(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses

        whole, sharded = made(False), made(True)
        assert trained(whole) == trained(sharded)
        expected, found = whole.module.state_dict(), sharded.full_state_dict()
        assert expected.keys() == found.keys() and all(fb.equal(expected[k], found[k]) for k in expected)
        count = sum(p.numel() for p in sharded.parameters())
        assert count * 2 <= sum(p.numel() for p in whole.parameters()) + 2 * 4
        with sharded.summon_full_params():
            assert sharded.module[0].module[0].weight.shape == (17, 11)
        other = made(True)
        other.load_full_state_dict(found)
        assert all(fb.equal(a, b) for a, b in zip(other.parameters(), sharded.parameters()))
        sharded(fb.ones(1, 11)).sum().backward()
        norm = sharded.clip_grad_norm_(0.5).item()
        assert norm > 0.5 and sharded.clip_grad_norm_(10.0).item() <= 0.5 + 1e-5
        """,
    )


def test_collectives_have_derivatives(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        from flambeau.distributed.nn import functional as F
        x = fb.tensor([1.0, 2.0], dtype=fb.float64) * (rank + 1)
        x.requires_grad_()
        weight = float(rank + 1)
        (F.all_reduce(x) * weight).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
        x.grad = None
        first, second = F.all_gather(x)
        ((first + 10 * second) * weight).sum().backward()
        assert x.grad.tolist() == [3.0 * (1, 10)[rank]] * 2
        x.grad = None
        (F.reduce_scatter(x, [x, 2 * x]) * weight).sum().backward()
        assert x.grad.tolist() == [1.0 + 2 * 2.0] * 2
        x.grad = None
        (F.broadcast(x, 1) * weight).sum().backward()
        assert x.grad.tolist() == ([3.0, 3.0] if rank == 1 else [0.0, 0.0])
        """,
    )


def test_samplers_take_the_rank_of_the_process(tmp_path):
    text = on_ranks(
        tmp_path,
        2,
        """
        from flambeau.utils.data import DistributedSampler
        indices = [None, None]
        dist.all_gather_object(indices, list(DistributedSampler(range(10), seed=3)))
        assert sorted(indices[0] + indices[1]) == list(range(10))
        """,
    )
    assert text == ""


def test_stores(tmp_path):
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=10)
    client = dist.TCPStore("127.0.0.1", server.port, timeout=timedelta(seconds=10))
    for store in (client, dist.FileStore(str(tmp_path / "store")), dist.HashStore(), dist.PrefixStore("p", server)):
        store.set("a", "1")
        assert store.get("a") == b"1" and store.add("n", 2) == 2 and store.add("n", -5) == -3
        assert store.compare_set("a", "1", b"2") == b"2" and store.compare_set("a", "1", "3") == b"2"
        assert store.compare_set("new", "", "x") == b"x" and store.compare_set("absent", "y", "z") == b"y"
        assert store.check(["a", "n"]) and not store.check(["a", "absent"]) and store.num_keys() >= 3
        assert store.delete_key("a") and not store.delete_key("a")
        with pytest.raises(dist.DistStoreError, match="'a'|\"a\""):
            store.wait(["a"], timedelta(seconds=0.2))
        with pytest.raises(RuntimeError, match="expected the value of .*new. to be a number"):
            store.add("new", 1)
    threading.Timer(0.2, lambda: server.set("late", "here")).start()
    assert client.get("late") == b"here"
    with pytest.raises(dist.DistNetworkError):
        dist.TCPStore("127.0.0.1", server.port, is_master=True)
    port = server.port
    del server
    with pytest.raises(dist.DistNetworkError, match="nobody serves"):
        dist.TCPStore("127.0.0.1", port + 1 if port < 65535 else port - 1, timeout=0.2)


def test_a_program_alone_and_arguments(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="RANK or OMPI_COMM_WORLD_RANK"):
        dist.init_process_group()
    with pytest.raises(ValueError, match="expected a backend of .*nccl.* but got 'ucc'"):
        dist.init_process_group("ucc")
    monkeypatch.setenv("FLAMBEAU_NCCL_LIBRARY", "/absent/libnccl.so.2")
    with pytest.raises(dist.DistBackendError, match="expected the library of NCCL.*/absent/libnccl.so.2"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    assert not dist.is_nccl_available() and dist.is_backend_available("nccl")
    dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.get_backend() == "gloo"
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="device_ids of one device, on which the module is, but got .0. and a module on .'cpu'"):
        flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1), device_ids=[0])
    with pytest.raises(ValueError, match="not been initialized"):
        dist.get_rank()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        x = flambeau.tensor([2.0])
        dist.all_reduce(x)
        dist.barrier()
        assert x.item() == 2.0 and dist.group.WORLD.size() == 1
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()
