"""What a call costs by its name, inside a mode, and on a wrapper: the CPU time of an addition of one element."""

from __future__ import annotations

import argparse
import time

import flambeau
from flambeau import Tensor
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Passing(TorchDispatchMode):
    """A mode that calls the operator and does nothing else."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Wrapper(Tensor):
    """A tensor that holds another one, and computes with it."""

    elem: Tensor

    @staticmethod
    def __new__(cls, elem: Tensor) -> Wrapper:
        made: Wrapper = Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype, device=elem.device)
        made.elem = elem
        return made

    def __init__(self, elem: Tensor) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(cls, lambda x: x.elem, (args, kwargs or {}))
        return cls(func(*args, **kwargs))


def nanoseconds(call: Callable[[], Any], calls: int, rounds: int = 20) -> float:
    """The CPU time of a call, in the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(calls):
            call()
        times.append((time.thread_time_ns() - start) / calls)
    return min(times)


def costs(calls: int) -> dict[str, float]:
    """The time of each kind of call, in nanoseconds."""
    x = flambeau.tensor([1.0])
    w, by_name = Wrapper(x), flambeau.ops.aten.add.Tensor
    found = {
        "fl.add(x, x)": nanoseconds(lambda: flambeau.add(x, x), calls),
        "fl.ops.aten.add.Tensor(x, x)": nanoseconds(lambda: by_name(x, x), calls),
    }
    with Passing():
        found["inside a mode"] = nanoseconds(lambda: flambeau.add(x, x), calls)
    with Passing(), Passing():
        found["inside two modes"] = nanoseconds(lambda: flambeau.add(x, x), calls)
    found["of a wrapper"] = nanoseconds(lambda: flambeau.add(w, w), calls)
    with Passing():
        found["of a wrapper inside a mode"] = nanoseconds(lambda: flambeau.add(w, w), calls)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000, help="calls in a round")
    found = costs(parser.parse_args().calls)
    plain = next(iter(found.values()))
    for name, taken in found.items():
        print(f"{name:30} {taken / 1000:6.2f} us, {taken - plain:+8.0f} ns")


if __name__ == "__main__":
    main()
