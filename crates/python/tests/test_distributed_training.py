"""Training on several processes: unused parameters, communication hooks, SyncBatchNorm, checkpoints, memory of sharded training."""

from __future__ import annotations

from test_distributed import on_ranks


def test_parameters_that_are_not_used_count_as_zeros(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        from flambeau.nn.parallel import DistributedDataParallel

        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.third = (nn.Linear(3, 1, bias=False) for _ in range(3))

            def forward(self, x, branch):
                return {"y": (self.first if branch == 0 else self.second)(x)}

        module = Branches()
        model = DistributedDataParallel(module, find_unused_parameters=True)
        x = fb.tensor([[1.0, 2.0, 3.0]])
        model(x, rank)["y"].sum().backward()
        assert module.first.weight.grad.tolist() == module.second.weight.grad.tolist() == [[0.5, 1.0, 1.5]]
        assert module.third.weight.grad is None
        # A forward pass without a backward pass, and then both ranks in one branch.
        model(x, rank)
        for parameter in model.parameters():
            parameter.grad = None
        model(x * (rank + 1), 1)["y"].sum().backward()
        assert module.second.weight.grad.tolist() == [[1.5, 3.0, 4.5]] and module.first.weight.grad is None
        plain = DistributedDataParallel(Branches())
        plain(x, 0)["y"].sum().backward()
        fails(lambda: plain(x, 0), "find_unused_parameters")
        """,
    )


def test_communication_hooks_average_buckets(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
        from flambeau.nn.parallel import DistributedDataParallel

        x, seen = fb.tensor([[1.0, 2.0, 3.0]]) * (rank + 1), []
        def own(state, bucket):
            seen.append((state, bucket.index(), bucket.is_last(), len(bucket.gradients()), len(bucket.parameters())))
            work = dist.all_reduce(bucket.buffer().div_(size), async_op=True)
            return work.get_future().then(lambda done: done.value()[0] + 1)

        def gradient(hook, state=None):
            layer = nn.Linear(3, 1, bias=False)
            model = DistributedDataParallel(layer)
            if hook is not None:
                model.register_comm_hook(state, hook)
            model(x).sum().backward()
            return layer.weight.grad.tolist()

        assert gradient(None) == [[1.5, 3.0, 4.5]]
        assert gradient(own, "state") == [[2.5, 4.0, 5.5]] and seen == [("state", 0, True, 1, 1)]
        for hook in (hooks.allreduce_hook, hooks.fp16_compress_hook, hooks.bf16_compress_hook, hooks.bf16_compress_wrapper(hooks.allreduce_hook)):
            assert gradient(hook) == [[1.5, 3.0, 4.5]]
        fails(lambda: gradient(lambda state, bucket: (_ for _ in ()).throw(ValueError("refused"))), "refused")
        """,
    )


def test_batch_normalisation_over_ranks_is_that_of_the_whole_batch(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        whole = fb.sin(fb.arange(6 * 3 * 4, dtype=fb.float64)).reshape(6, 3, 4) * 3 + 100
        weight = fb.cos(fb.arange(6 * 3 * 4, dtype=fb.float64)).reshape(6, 3, 4)
        local, other = nn.BatchNorm1d(3, dtype=fb.float64), nn.BatchNorm1d(3, dtype=fb.float64)
        model = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(local))
        x = whole.clone().requires_grad_()
        expected = other(x)
        (expected * weight).sum().backward()
        # Batches of different sizes.
        rows = slice(0, 2) if rank == 0 else slice(2, 6)
        own = whole[rows].clone().requires_grad_()
        found = model(own)
        (found * weight[rows]).sum().backward()
        assert (found - expected[rows]).abs().max().item() < 1e-10
        assert (own.grad - x.grad[rows]).abs().max().item() < 1e-10
        grad = local.weight.grad.clone() if local.weight.grad is not None else model[0].weight.grad.clone()
        dist.all_reduce(grad)
        assert (grad - other.weight.grad).abs().max().item() < 1e-9
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            assert (getattr(model[0], name) - getattr(other, name)).abs().max().item() < 1e-12, name
        model.eval(), other.eval()
        assert (model(own) - other(own)).abs().max().item() < 1e-10
        """,
    )


SHARDED = """
from flambeau.distributed import checkpoint
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP

def made(seed):
    fb.manual_seed(seed)
    blocks = [nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 5)) for _ in range(2)]
    model = FSDP(nn.Sequential(*(FSDP(block) for block in blocks), nn.Linear(5, 2)))
    return model, optim.AdamW(model.parameters(), lr=0.01)

def step(model, optimizer, number):
    # Every rank has the same batch, so that the number of ranks does not matter.
    optimizer.zero_grad()
    model(fb.sin(fb.arange(15.0).reshape(3, 5) * number)).square().mean().backward()
    optimizer.step()

def state(model, optimizer):
    return {"model": model.sharded_state_dict(), "optimizer": model.sharded_optim_state_dict(optimizer), "step": 3, "note": [1.5, "text"]}
folder = sys.argv[1] + "/checkpoint"
"""


def test_a_checkpoint_of_two_ranks_is_read_by_one_three_and_four(tmp_path):
    saved = on_ranks(
        tmp_path,
        2,
        SHARDED
        + """
model, optimizer = made(1)
for number in range(1, 4):
    step(model, optimizer, number)
checkpoint.save(state(model, optimizer), checkpoint_id=folder)
saving = checkpoint.async_save(state(model, optimizer), checkpoint_id=folder)
step(model, optimizer, 4)
saving.result()
full = model.full_state_dict()
if rank == 0:
    print("VALUES", fb.cat([full[name].double().flatten() for name in sorted(full)]).tolist())
fails(lambda: checkpoint.load({"other": fb.zeros(1)}, checkpoint_id=folder), "other")
fails(lambda: checkpoint.load({"model": {"1.weight": fb.zeros(1)}}, checkpoint_id=folder), "1.weight")
""",
    )
    expected = next(line for line in saved.splitlines() if line.startswith("VALUES"))
    for count in (1, 3, 4):
        found = on_ranks(
            tmp_path,
            count,
            SHARDED
            + """
model, optimizer = made(2)
loaded = state(model, optimizer)
loaded.update(step=0, note=None)
checkpoint.load(loaded, checkpoint_id=folder)
assert loaded["step"] == 3 and loaded["note"] == [1.5, "text"]
step(model, optimizer, 4)
full = model.full_state_dict()
if rank == 0:
    print("VALUES", fb.cat([full[name].double().flatten() for name in sorted(full)]).tolist())
""",
        )
        values = next(line for line in found.splitlines() if line.startswith("VALUES"))
        if count in (1, 4):
            # Averages over a power of two of equal gradients are exact.
            assert values == expected
    kept = [path.name for path in (tmp_path / "checkpoint").iterdir()]
    assert "index.safetensors" in kept and len(kept) == 3


def test_a_damaged_checkpoint_is_an_error(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        import pathlib
        from flambeau.distributed import checkpoint
        folder = pathlib.Path(sys.argv[1]) / "checkpoint"
        fails(lambda: checkpoint.load({"x": fb.zeros(3)}, checkpoint_id=folder), "checkpoint")
        whole = fb.arange(1001.0)
        first = 0 if rank == 0 else 500
        part = checkpoint.Shard(whole[first : first + 500 + rank].clone(), (1001,), first)
        checkpoint.save({"x": part, "y": fb.ones(2)}, checkpoint_id=folder)
        assert fb.equal(checkpoint.load_all(folder)["x"], whole)
        gap = checkpoint.Shard(whole[first : first + 400].clone(), (1001,), first)
        fails(lambda: checkpoint.save({"x": gap}, checkpoint_id=folder), "make up all of its 1001 elements")
        dist.barrier()
        if rank == 0:
            for path in folder.glob("parts-*"):
                data = bytearray(path.read_bytes())
                data[-2] ^= 1
                path.write_bytes(data)
            fails(lambda: checkpoint.load_all(folder), "checksum")
        dist.barrier()
        """,
    )


def test_sharded_training_needs_less_memory(tmp_path):
    """The peaks of the third step, by the library's own count of bytes, with a model that is large beside its activations."""
    text = on_ranks(
        tmp_path,
        2,
        """
        from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
        from flambeau.nn.parallel import DistributedDataParallel
        from flambeau.profiler import profile

        def peak(sharded):
            blocks = [nn.Linear(256, 256, bias=False) for _ in range(16)]
            model = nn.Sequential(*(FSDP(block) for block in blocks)) if sharded else DistributedDataParallel(
                nn.Sequential(*blocks), gradient_as_bucket_view=True, bucket_cap_mb=1)
            del blocks
            optimizer, x = optim.AdamW(model.parameters(), lr=0.01), fb.ones(2, 256)
            for number in range(3):
                with profile(profile_memory=True) as measured:
                    optimizer.zero_grad()
                    model(x).square().mean().backward()
                    optimizer.step()
            return measured.peak_memory

        whole, sharded = peak(False), peak(True)
        if rank == 0:
            print("RATIO", sharded / whole, sharded, whole)
        """,
    )
    ratio = float(next(line for line in text.splitlines() if line.startswith("RATIO")).split()[1])
    assert 0.1 < ratio < 0.6, text


def test_ranks_of_a_slower_network_wait(tmp_path):
    on_ranks(
        tmp_path,
        2,
        """
        dist.destroy_process_group()
        assert dist.is_backend_available("mpi") and isinstance(dist.is_mpi_available(), bool)
        store = dist.FileStore(sys.argv[1] + "/store")
        dist.init_process_group("tcp", store=store, rank=rank, world_size=size, network=(0.05, 1e9))
        begin = time.monotonic()
        dist.all_reduce(fb.ones(1))
        assert time.monotonic() - begin >= 0.05
        """,
    )
