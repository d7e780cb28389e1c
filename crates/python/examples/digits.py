"""Trains a small network on the 1,797 handwritten digits of scikit-learn, in seconds."""

from __future__ import annotations

import argparse
import sys
import time

import flambeau
from flambeau import nn
from flambeau.utils.data import DataLoader, TensorDataset, random_split


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15, help="runs over the training digits")
    parser.add_argument("--batch", type=int, default=64, help="digits a step")
    parser.add_argument("--channels", type=int, default=16, help="channels of the first convolution; the second has twice as many")
    parser.add_argument("--lr", type=float, default=3e-3, help="learning rate at its highest")
    parser.add_argument("--seed", type=int, default=1, help="of weights, dropout, order, and which digits are for testing")
    parser.add_argument("--workers", type=int, default=0, help="processes that make batches")
    parser.add_argument("--plot", metavar="FILE", help="draws the loss curve into an SVG file; needs matplotlib")
    args = parser.parse_args()
    for name in ("epochs", "batch", "channels"):
        if getattr(args, name) < 1:
            parser.error(f"expected --{name} of at least 1 but got {getattr(args, name)}")
    return args


def digits() -> TensorDataset:
    """Pictures of 8 by 8, from 0 to 1, and what they show."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        sys.exit("error: the digits come with scikit-learn, which is not installed: pip install scikit-learn")
    data = load_digits()
    pictures = flambeau.tensor(data.images, dtype=flambeau.float32).unsqueeze(1) / 16
    return TensorDataset(pictures, flambeau.tensor(data.target))


def network(channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(2 * channels * 16, 10),
    )


def accuracy(model: nn.Module, data: DataLoader) -> float:
    """The part of the digits that are told right."""
    model.eval()
    right = count = 0
    with flambeau.no_grad():
        for pictures, answers in data:
            right += (model(pictures).argmax(1) == answers).sum().item()
            count += len(answers)
    return right / count


def train(args: argparse.Namespace, model: nn.Module, data: DataLoader, test: DataLoader) -> list[float]:
    """The mean loss of each epoch."""
    optimizer = flambeau.optim.Adam(model.parameters(), lr=args.lr)
    steps = args.epochs * len(data)
    schedule = flambeau.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for epoch in range(1, args.epochs + 1):
        model.train()
        total = 0.0
        for pictures, answers in data:
            loss = nn.functional.cross_entropy(model(pictures), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(answers)
        losses.append(total / len(data.dataset))
        told = f"epoch {epoch:3}/{args.epochs}  loss {losses[-1]:.4f}"
        if sys.stderr.isatty():
            print(f"\r{told}", end="" if epoch < args.epochs else "\n", file=sys.stderr, flush=True)
        elif epoch % 5 == 0 or epoch == args.epochs:
            print(f"{told}  accuracy {accuracy(model, test):.2%}")
    return losses


def draw(path: str, losses: list[float]) -> None:
    try:
        import matplotlib
    except ImportError:
        sys.exit("error: --plot needs matplotlib, which is not installed: pip install matplotlib")
    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.plot(range(1, len(losses) + 1), losses)
    pyplot.xlabel("epoch")
    pyplot.ylabel("training loss")
    pyplot.yscale("log")
    pyplot.savefig(path, format="svg")
    print(f"loss curve: {path}")


def main() -> None:
    args = arguments()
    flambeau.manual_seed(args.seed)
    training, testing = random_split(digits(), [0.8, 0.2])
    workers = {"num_workers": args.workers, "persistent_workers": args.workers > 0}
    data = DataLoader(training, args.batch, shuffle=True, **workers)
    test = DataLoader(testing, 512)
    model = network(args.channels)
    print(f"{len(training)} digits to train on, {len(testing)} to test; {sum(p.numel() for p in model.parameters())} parameters")
    begin = time.perf_counter()
    losses = train(args, model, data, test)
    print(f"test accuracy {accuracy(model, test):.2%} after {time.perf_counter() - begin:.1f} s")
    if args.plot:
        draw(args.plot, losses)


if __name__ == "__main__":
    main()
