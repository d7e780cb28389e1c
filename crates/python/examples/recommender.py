"""Trains a recommender by factors of users and items: embeddings with many rows, whose sparse gradients have the few that were read."""

from __future__ import annotations

import argparse
import time

import flambeau
from flambeau import Tensor, nn
from flambeau.profiler import profile


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000, help="rows of the table of users")
    parser.add_argument("--items", type=int, default=100_000, help="rows of the table of items")
    parser.add_argument("--factors", type=int, default=16, help="numbers that describe a user or an item")
    parser.add_argument("--batch", type=int, default=4096, help="ratings a step")
    parser.add_argument("--steps", type=int, default=50, help="steps of training")
    parser.add_argument("--lr", type=float, default=1e-2, help="learning rate")
    parser.add_argument("--weight-decay", type=float, default=0.0, help="weight decay of the rows that a step reads")
    parser.add_argument("--seed", type=int, default=1, help="of ratings and tables")
    args = parser.parse_args()
    for name in ("users", "items", "factors", "batch", "steps"):
        if getattr(args, name) < 1:
            parser.error(f"expected --{name} of at least 1 but got {getattr(args, name)}")
    return args


class Recommender(nn.Module):
    """A rating is the inner product of the factors of user and item."""

    def __init__(self, users: int, items: int, factors: int) -> None:
        super().__init__()
        self.users = nn.Embedding(users, factors, sparse=True)
        self.items = nn.Embedding(items, factors, sparse=True)
        with flambeau.no_grad():
            for table in (self.users, self.items):
                table.weight.mul_(0.3)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return (self.users(users) * self.items(items)).sum(1)


def main() -> None:
    args = arguments()
    flambeau.manual_seed(args.seed)
    model = Recommender(args.users, args.items, args.factors)
    truth = flambeau.randn(args.users, 2), flambeau.randn(args.items, 2)
    adam = flambeau.optim.SparseAdam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay, lazy=True)
    # A few rows are read in most steps, as those of popular items.
    popular = max(args.batch // 4, 1)

    def train() -> Tensor:
        users = flambeau.randint(0, min(args.users, popular), (args.batch,))
        items = flambeau.randint(0, min(args.items, popular), (args.batch,))
        ratings = (truth[0][users] * truth[1][items]).sum(1)
        loss = nn.functional.mse_loss(model(users, items), ratings)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    start = time.perf_counter()
    for step in range(args.steps):
        loss = train()
        if step % 10 == 9 or step == 0:
            rows = model.users.weight.grad._nnz()
            print(f"step {step + 1}: loss {loss.item():.4f}, gradients of {rows} of {args.users} users")
    seconds = (time.perf_counter() - start) / args.steps
    with profile(profile_memory=True) as profiled:
        train()
    # Tables, means of gradients and their squares; the truth has two factors.
    lasting = 4 * (args.users + args.items) * (3 * args.factors + 2) / 2**20
    beside = profiled.peak_memory / 2**20 - lasting
    print(f"{seconds * 1000:.2f} ms a step, with at most {beside:.2f} MiB in tensors beside {lasting:.0f} MiB of tables and means")


if __name__ == "__main__":
    main()
