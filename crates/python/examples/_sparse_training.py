"""What the examples of sparse tensors share: options of their training, and the loop that prints, times and measures it."""

from __future__ import annotations

import argparse
import time

from flambeau.profiler import profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from flambeau import Tensor

    Said = TypeVar("Said")

OF_TRAINING = (
    ("steps", 40, "steps of training"),
    ("lr", 1e-2, "learning rate"),
    ("seed", 1, "of everything that is drawn"),
)


def options(description: str | None, own: Sequence[tuple[str, float, str]]) -> argparse.Namespace:
    """The options of a program, each a name, a default and an explanation, with those of training; whole numbers are at least 1."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default, explanation in (*own, *OF_TRAINING):
        parser.add_argument(f"--{name}", type=type(default), default=default, help=explanation)
    args = parser.parse_args()
    for name, value in vars(args).items():
        if name != "seed" and isinstance(value, int) and value < 1:
            parser.error(f"expected --{name} of at least 1 but got {value}")
    return args


def trained(steps: int, step: Callable[[], tuple[Tensor, Said]], say: Callable[[Said], str]) -> tuple[float, float]:
    """Trains by `step`, which gives the loss and what `say` tells of it; the milliseconds of a step, and the MiB that tensors take in one."""
    start = time.perf_counter()
    for number in range(1, steps + 1):
        loss, said = step()
        if number % 10 == 0 or number == 1:
            print(f"step {number}: loss {loss.item():.4f}, {say(said)}")
    seconds = (time.perf_counter() - start) / steps
    del loss, said
    with profile(profile_memory=True) as profiled:
        step()
    return seconds * 1000, profiled.peak_memory / 2**20
