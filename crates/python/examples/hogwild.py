"""Trains one network by two methods, and prints what came of each: by Hogwild, whose processes change shared parameters without
waiting for each other, and by DistributedDataParallel, whose ranks average their gradients in every step.

Both see as many pictures in as many processes. Hogwild's result differs from run to run; the other's is the same to the last bit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from mnist_cnn import Network, draw, recognised

import flambeau
from flambeau import distributed as dist
from flambeau import multiprocessing as mp
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import TensorDataset


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="processes of each method")
    parser.add_argument("--drawn", type=int, default=6000, help="digits to draw to train on; a sixth as many are held out")
    parser.add_argument("--epochs", type=int, default=2, help="passes over the pictures")
    parser.add_argument("--batch", type=int, default=32, help="pictures a step of one process")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate of plain gradient descent")
    parser.add_argument("--seed", type=int, default=1, help="of weights, order and drawn digits")
    args = parser.parse_args()
    for name in ("ranks", "drawn", "epochs", "batch"):
        if getattr(args, name) < 1:
            parser.error(f"expected --{name} of at least 1 but got {getattr(args, name)}")
    if args.drawn < args.ranks * args.batch:
        parser.error(f"expected --drawn of at least {args.ranks * args.batch}, one step of all, but got {args.drawn}")
    return args


def digits(args: argparse.Namespace) -> tuple[TensorDataset, TensorDataset]:
    """The digits to train on and those held out, the same in every process."""
    generator = flambeau.Generator().manual_seed(args.seed)
    return draw(args.drawn, generator), draw(args.drawn // 6 + 1, generator)


def train(args: argparse.Namespace, rank: int, model: nn.Module) -> None:
    """The steps of one process, on its part of the pictures."""
    flambeau.set_num_threads(1)
    (pictures, answers), _ = (data.tensors for data in digits(args))
    optimizer = flambeau.optim.SGD(model.parameters(), lr=args.lr)
    order = flambeau.Generator().manual_seed(args.seed)
    for _ in range(args.epochs):
        mixed = flambeau.randperm(args.drawn, generator=order)[rank :: args.ranks]
        # All ranks take as many steps.
        for step in range(args.drawn // args.ranks // args.batch):
            batch = mixed[step * args.batch : (step + 1) * args.batch]
            optimizer.zero_grad()
            F.cross_entropy(model(pictures[batch]), answers[batch]).backward()
            optimizer.step()


def hogwild(rank: int, args: argparse.Namespace, model: nn.Module) -> None:
    train(args, rank, model)


def data_parallel(rank: int, args: argparse.Namespace, model: nn.Module, meeting: str) -> None:
    """Each rank has a copy of the model; the first one writes its own back."""
    dist.init_process_group(init_method=f"file://{meeting}", rank=rank, world_size=args.ranks)
    own = Network(28, 28)
    own.load_state_dict(model.state_dict())
    train(args, rank, DistributedDataParallel(own))
    if rank == 0:
        model.load_state_dict(own.state_dict())
    dist.destroy_process_group()


def main() -> None:
    args = arguments()
    pictures, answers = digits(args)[1].tensors
    held_out = TensorDataset(pictures, answers)
    steps = args.epochs * (args.drawn // args.ranks // args.batch)
    print(f"{steps} steps of {args.batch} pictures in each of {args.ranks} processes; {len(answers)} pictures held out")
    with tempfile.TemporaryDirectory() as folder:
        methods = (("Hogwild", hogwild, ()), ("DistributedDataParallel", data_parallel, (str(Path(folder) / "meeting"),)))
        for name, method, more in methods:
            flambeau.manual_seed(args.seed)
            model = Network(28, 28).share_memory()
            begin = time.perf_counter()
            mp.spawn(method, args=(args, model, *more), nprocs=args.ranks)
            seconds = time.perf_counter() - begin
            with flambeau.no_grad():
                loss = F.cross_entropy(model(pictures), answers).item()
            right = recognised(model, held_out, "cpu") / len(answers)
            print(f"{name:24} {seconds:6.1f} s  held-out loss {loss:.4f}  {right:.2%} right", flush=True)


if __name__ == "__main__":
    main()
