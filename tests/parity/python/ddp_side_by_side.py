"""Times data parallel training on two processes of one thread each, beside PyTorch's with Gloo: the same model, data and optimizer.

The interpreter needs torch, and flambeau's release module in the search path:

    PYTHONPATH=crates/python/python python tests/parity/python/ddp_side_by_side.py

Each round starts the two processes of both libraries one after another, in both orders, and the ratio of a round is that of its medians:
other work on the machine slows down both. Prints the ratio of each round, and their geometric mean.
"""

from __future__ import annotations

import argparse
import math
import os
import socket
import statistics
import subprocess
import sys
import time

LIBRARIES = ("flambeau", "torch")
RANKS = 2

# With it glibc retains freed memory, as Flambeau always does.
KEEP = "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184"


def gpt(torch, nn):
    """A GPT of characters: vocabulary 96, context 64, width 128, four blocks; 0.8 million parameters."""
    functional = nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(128), nn.LayerNorm(128)
            self.project, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
            self.mlp = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))

        def forward(self, x):
            batch, length, width = x.shape
            heads = self.project(self.first(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.second(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(96, 128), nn.Embedding(64, 128)
            self.blocks = nn.Sequential(*(Block() for _ in range(4)))
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 96, bias=False)

        def forward(self, tokens):
            x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    def batch():
        return torch.randint(0, 96, (8, 64)), torch.randint(0, 96, (8 * 64,))

    def loss(output, target):
        return functional.cross_entropy(output.reshape(-1, 96), target)

    return Gpt(), batch, loss


def mlp(torch, nn):
    """Three layers of width 1024, 3.2 million parameters, and 32 examples: much to send, little to compute."""
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024))

    def batch():
        return torch.randn(32, 1024), torch.randn(32, 1024)

    return model, batch, nn.functional.mse_loss


MODELS = {"gpt": gpt, "mlp": mlp}


def work(name: str, library: str, seconds: float) -> None:
    """Trains as one rank, and prints the median time of a step on rank 0 in milliseconds."""
    if library == "torch":
        import torch
        import torch.distributed as dist
        from torch import nn
    else:
        import flambeau as torch
        from flambeau import distributed as dist, nn
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model, batch, loss = MODELS[name](torch, nn)
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())
    inputs, targets = batch()
    times: list[float] = []
    # All ranks run as many steps: rank 0 says whether there is one more.
    more, begin = torch.ones(1), time.perf_counter()
    while more.item():
        start = time.perf_counter()
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        more.fill_(float(time.perf_counter() - begin < seconds))
        dist.broadcast(more, 0)
    if dist.get_rank() == 0:
        print(statistics.median(times[len(times) // 4 :]) * 1e3)
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def step_time(name: str, library: str, options: argparse.Namespace) -> float:
    """Milliseconds of a step."""
    variables = {"WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "OMP_NUM_THREADS": 1, "FLAMBEAU_NUM_THREADS": 1}
    environment = {**os.environ, **{key: str(value) for key, value in variables.items()}}
    if options.keep and library == "torch":
        environment["GLIBC_TUNABLES"] = KEEP
    command = [sys.executable, __file__, "--worker", library, "--model", name, "--seconds", str(options.seconds)]
    ranks = []
    for rank in range(RANKS):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks.append(subprocess.Popen(command, env={**environment, **own}, stdout=subprocess.PIPE, text=True))
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"{library}: a rank failed")
    return float(outputs[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, help="one of the models; by default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each library in each half of a round")
    parser.add_argument("--keep", action="store_true", help="PyTorch with a C library that retains freed memory")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.model, options.worker, options.seconds)
    for name in [options.model] if options.model else MODELS:
        ratios = []
        for _ in range(options.rounds):
            times: dict[str, list[float]] = {library: [] for library in LIBRARIES}
            for order in (LIBRARIES, LIBRARIES[::-1]):
                for library in order:
                    times[library].append(step_time(name, library, options))
            ours, theirs = (statistics.mean(times[library]) for library in LIBRARIES)
            ratios.append(theirs / ours)
            print(f"{name}: Flambeau {ours:.2f} ms, PyTorch {theirs:.2f} ms, ratio {theirs / ours:.2f}", flush=True)
        mean = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
        print(f"{name}: PyTorch's time divided by Flambeau's, geometric mean of {len(ratios)} rounds: {mean:.2f}", flush=True)


if __name__ == "__main__":
    main()
