"""Trains a small convolutional network to read digits, in one process or in several that share each step.

Give all four files of MNIST (unpacked), or none: then digits are drawn, shifted, slanted and made noisy. `--ranks` starts so many
processes. With the same `--micro-batches` the result is the same for every number of them, to the last bit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import flambeau
from flambeau import Tensor, nn
from flambeau import distributed as dist
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, TensorDataset

# Five columns and seven rows a digit; the lowest bit is the rightmost column.
FONT = (
    (0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110),
    (0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110),
    (0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b01000, 0b11111),
    (0b11111, 0b00010, 0b00100, 0b00010, 0b00001, 0b10001, 0b01110),
    (0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010),
    (0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110),
    (0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110),
    (0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000),
    (0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110),
    (0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100),
)
# Rows and columns of a drawn picture, as in MNIST.
SIZE = 28
# What a hand varies, from and to: the centre, pixels a row and a column of the font, columns to the right for each row up, strength.
LOW, HIGH = (-3.0, -4.0, 2.0, 2.0, -0.3, 0.5), (3.0, 4.0, 3.2, 3.6, 0.3, 1.0)
# Pictures that are looked at at once when nothing is learnt.
AT_ONCE = 500


def arguments(line: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--images", type=Path, help="pictures to train on: train-images-idx3-ubyte")
    parser.add_argument("--labels", type=Path, help="their digits: train-labels-idx1-ubyte")
    parser.add_argument("--test-images", type=Path, help="pictures held out: t10k-images-idx3-ubyte")
    parser.add_argument("--test-labels", type=Path, help="their digits: t10k-labels-idx1-ubyte")
    parser.add_argument("--drawn", type=int, default=12000, help="digits to draw to train on; a sixth as many are held out")
    parser.add_argument("--epochs", type=int, default=6, help="passes over the pictures")
    parser.add_argument("--batch", type=int, default=64, help="pictures a step")
    parser.add_argument("--lr", type=float, default=2e-3, help="learning rate at first; it falls to 0 along half a wave")
    parser.add_argument("--seed", type=int, default=1, help="of weights, order and drawn digits")
    parser.add_argument("--device", default="cpu", help="where to train")
    parser.add_argument("--threads", type=int, default=0, help="0 for as many as there are cores; the result is the same")
    parser.add_argument("--ranks", type=int, default=1, help="processes that share the steps")
    parser.add_argument("--micro-batches", type=int, help="parts of a step: a power of two times --ranks, which is the default")
    parser.add_argument("--save", type=Path, metavar="FILE", help="writes the parameters into a file of safetensors")
    args = parser.parse_args(line)
    for name in ("drawn", "epochs", "batch", "ranks"):
        if getattr(args, name) < 1:
            parser.error(f"expected --{name} of at least 1 but got {getattr(args, name)}")
    files = (args.images, args.labels, args.test_images, args.test_labels)
    if any(files) and not all(files):
        parser.error("expected all four files or none")
    args.micro_batches = args.ranks if args.micro_batches is None else args.micro_batches
    each, rest = divmod(args.micro_batches, args.ranks)
    if rest or each < 1 or each & (each - 1):
        parser.error(f"expected --micro-batches of a power of two times --ranks, {args.ranks}, but got {args.micro_batches}")
    return args


def read(images: Path, labels: Path) -> TensorDataset:
    """Pictures and digits of files in the format IDX."""
    elements = []
    for path, kind, header in ((images, 0x803, 16), (labels, 0x801, 8)):
        data = path.read_bytes()
        sizes = [int.from_bytes(data[at : at + 4], "big") for at in range(4, header, 4)]
        count = 1
        for size in sizes:
            count *= size
        if int.from_bytes(data[:4], "big") != kind or len(data) != header + count or not count:
            sys.exit(f"error: {path}: expected a file of the format IDX with {count} elements")
        elements.append(flambeau.frombuffer(bytearray(data[header:]), dtype=flambeau.uint8).view(sizes))
    pictures, digits = elements
    if len(pictures) != len(digits):
        sys.exit(f"error: {labels}: expected {len(pictures)} labels but got {len(digits)}")
    return TensorDataset(pictures.unsqueeze(1).float() / 255, digits.long())


def draw(count: int, generator: flambeau.Generator) -> TensorDataset:
    """Digits, 0 to 9 repeated, at random positions, of random sizes, slants and strengths, with noise."""
    low, high = flambeau.tensor(LOW), flambeau.tensor(HIGH)
    hands = low + (high - low) * flambeau.rand(count, len(LOW), generator=generator)
    row, column, height, width, slant, strength = (hand.view(count, 1, 1) for hand in hands.unbind(1))
    pixels = flambeau.arange(SIZE) + 0.5 - SIZE / 2
    down = pixels.view(1, SIZE, 1) - row
    right = pixels.view(1, 1, SIZE) - column + slant * down
    row, column = (down / height + 3.5).floor(), (right / width + 2.5).floor()
    inside = (row >= 0) & (row < 7) & (column >= 0) & (column < 5)
    font = flambeau.tensor([[row >> (4 - bit) & 1 for row in glyph for bit in range(5)] for glyph in FONT], dtype=flambeau.float32)
    digits = flambeau.arange(count) % len(FONT)
    at = (row.clamp(0, 6) * 5 + column.clamp(0, 4)).long() + 35 * digits.view(count, 1, 1)
    ink = font.view(-1)[at] * inside * strength
    noise = flambeau.rand(count, SIZE, SIZE, generator=generator) * 0.5 - 0.25
    return TensorDataset((ink + noise).clamp(0, 1).unsqueeze(1), digits)


class Network(nn.Module):
    """Two convolutions, each followed by pooling, and a linear layer: ten numbers, the largest at the digit."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding="same"),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.digits = nn.Linear(16 * (height // 4) * (width // 4), 10)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.digits(self.features(pictures).flatten(1))


def recognised(model: nn.Module, data: TensorDataset, device: str) -> int:
    """How many digits the model recognises."""
    pictures, digits = data.tensors
    right = 0
    with flambeau.no_grad():
        for first in range(0, len(digits), AT_ONCE):
            said = model(pictures[first : first + AT_ONCE].to(device)).argmax(1).cpu()
            right += int((said == digits[first : first + AT_ONCE]).sum())
    return right


class Training:
    """A model, and how its steps are shared."""

    def __init__(self, args: argparse.Namespace, model: nn.Module) -> None:
        self.args, self.model, self.shared = args, model, None
        self.rank, self.ranks = 0, 1
        if args.micro_batches > 1:
            if args.ranks > 1:
                dist.init_process_group()
            else:
                dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
            self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
            self.shared = DistributedDataParallel(model, deterministic=True)

    def backward(self, pictures: Tensor, digits: Tensor) -> float:
        """Computes the gradients of a step, and returns its mean loss."""
        if self.shared is None:
            loss = F.cross_entropy(self.model(pictures), digits)
            loss.backward()
            return loss.item()
        count, total = self.args.micro_batches, len(digits)
        each = count // self.ranks
        own = range(self.rank * each, (self.rank + 1) * each)
        losses = flambeau.zeros(count, dtype=flambeau.float64)
        for number in own:
            part = slice(number * total // count, (number + 1) * total // count)
            # The mean of the means is that of all pictures, also where the micro-batches of the last step differ in size.
            share = (part.stop - part.start) * count / total
            with contextlib.nullcontext() if number + 1 == own.stop else self.shared.no_sync():
                loss = F.cross_entropy(self.shared(pictures[part]), digits[part]) * share
                loss.backward()
            losses[number] = loss.item()
        # Each loss is added to zeros, which changes no bit.
        dist.all_reduce(losses)
        return losses.mean().item()

    def run(self, train: TensorDataset, held_out: TensorDataset) -> list[float]:
        """The mean loss of each epoch."""
        args, losses = self.args, []
        order = flambeau.Generator().manual_seed(args.seed)
        data = DataLoader(train, args.batch, shuffle=True, generator=order)
        optimizer = flambeau.optim.Adam(self.model.parameters(), lr=args.lr)
        schedule = flambeau.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(data))
        for epoch in range(1, args.epochs + 1):
            total = 0.0
            for pictures, digits in data:
                optimizer.zero_grad()
                total += self.backward(pictures.to(args.device), digits.to(args.device)) * len(digits)
                optimizer.step()
                schedule.step()
            losses.append(total / len(train))
            if self.rank == 0:
                right = recognised(self.model, held_out, args.device)
                print(f"epoch {epoch}  training loss {losses[-1]:.4f}  held out {right / len(held_out):.2%} right", flush=True)
        return losses


def main() -> None:
    args = arguments()
    if args.ranks > 1 and "RANK" not in os.environ:
        launcher = [sys.executable, "-m", "flambeau.distributed.run", "--nproc-per-node", str(args.ranks)]
        sys.exit(subprocess.run([*launcher, *sys.argv]).returncode)
    if args.threads:
        flambeau.set_num_threads(args.threads)
    if args.images:
        train, held_out = read(args.images, args.labels), read(args.test_images, args.test_labels)
    else:
        generator = flambeau.Generator().manual_seed(args.seed)
        train, held_out = draw(args.drawn, generator), draw(args.drawn // 6 + 1, generator)
    last = len(train) % args.batch or args.batch
    if min(args.batch, last) < args.micro_batches:
        sys.exit(f"error: expected steps of at least {args.micro_batches} pictures, the --micro-batches, but the last one has {last}")
    flambeau.manual_seed(args.seed)
    model = Network(*train.tensors[0].shape[-2:]).to(args.device)
    training = Training(args, model)
    begin = time.perf_counter()
    training.run(train, held_out)
    if training.rank == 0:
        right = recognised(model, held_out, args.device)
        print(f"{args.epochs} epochs in {time.perf_counter() - begin:.1f} s")
        print(f"{right} of {len(held_out)} held-out digits recognised: {right / len(held_out):.2%}")
        if args.save:
            flambeau.save(model.state_dict(), args.save)
    if training.shared is not None:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
