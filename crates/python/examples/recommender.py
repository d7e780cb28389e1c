"""Trains a recommender by factors of users and items: embeddings with many rows, whose sparse gradients have the few that were read."""

from __future__ import annotations

import flambeau
from flambeau import Tensor, nn

from _sparse_training import options, trained

OPTIONS = (
    ("users", 1_000_000, "rows of the table of users"),
    ("items", 100_000, "rows of the table of items"),
    ("factors", 16, "numbers that describe a user or an item"),
    ("batch", 4096, "ratings a step"),
    ("weight-decay", 0.0, "weight decay of the rows that a step reads"),
)


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
    args = options(__doc__, OPTIONS)
    flambeau.manual_seed(args.seed)
    model = Recommender(args.users, args.items, args.factors)
    truth = flambeau.randn(args.users, 2), flambeau.randn(args.items, 2)
    adam = flambeau.optim.SparseAdam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay, lazy=True)
    # A few rows are read in most steps, as those of popular items.
    popular = max(args.batch // 4, 1)

    def train() -> tuple[Tensor, int]:
        users = flambeau.randint(0, min(args.users, popular), (args.batch,))
        items = flambeau.randint(0, min(args.items, popular), (args.batch,))
        ratings = (truth[0][users] * truth[1][items]).sum(1)
        loss = nn.functional.mse_loss(model(users, items), ratings)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach(), model.users.weight.grad._nnz()

    def read(rows: int) -> str:
        return f"gradients of {rows} of {args.users} users"

    milliseconds, mebibytes = trained(args.steps, train, read)
    # Tables, means of gradients and their squares; the truth has two factors.
    lasting = 4 * (args.users + args.items) * (3 * args.factors + 2) / 2**20
    beside = mebibytes - lasting
    print(f"{milliseconds:.2f} ms a step, with at most {beside:.2f} MiB in tensors beside {lasting:.0f} MiB of tables and means")


if __name__ == "__main__":
    main()
