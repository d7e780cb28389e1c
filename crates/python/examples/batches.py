"""Gradients of each sample of a small convolutional network, and a Jacobian: by `vmap`, and by a loop, with the time of both."""

from __future__ import annotations

import argparse
import time

import flambeau
from flambeau import Tensor, nn
from flambeau.func import functional_call, grad, jacfwd, jacrev, vmap
from flambeau.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def arguments(line: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--samples", type=int, default=128, help="images, each of which has a gradient of its own")
    parser.add_argument("--outputs", type=int, default=64, help="rows and columns of the Jacobian")
    parser.add_argument("--runs", type=int, default=5, help="the fastest of so many runs counts")
    return parser.parse_args(line)


def fastest(runs: int, of: Callable[[], Any]) -> tuple[float, Any]:
    """The time of the fastest run, in milliseconds, and a result."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        result = of()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times), result


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 13 * 13, 10))


def sample_gradients(samples: int, runs: int) -> tuple[float, float, float]:
    """The times by a loop and by `vmap`, and the largest difference of the two."""
    model, images, digits = network(), flambeau.randn(samples, 1, 28, 28), flambeau.randint(0, 10, (samples,))
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], image: Tensor, digit: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, parameters, (image.unsqueeze(0),)), digit.unsqueeze(0))

    of_each = vmap(grad(loss), in_dims=(None, 0, 0))
    loop, rows = fastest(runs, lambda: [grad(loss)(parameters, image, digit) for image, digit in zip(images, digits)])
    batch, whole = fastest(runs, lambda: of_each(parameters, images, digits))
    differences = [(whole[name] - flambeau.stack([row[name] for row in rows])).abs().max().item() for name in parameters]
    return loop, batch, max(differences)


def jacobians(outputs: int, runs: int) -> dict[str, tuple[float, float]]:
    """The time of each method, and the largest difference from the first."""
    model, x = nn.Sequential(nn.Linear(outputs, outputs), nn.Tanh(), nn.Linear(outputs, outputs)), flambeau.randn(outputs)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    methods = {"rows one by one": jacrev(model, chunk_size=1), "all rows": jacrev(model), "all columns": jacfwd(model)}
    found = {name: fastest(runs, lambda: of(x)) for name, of in methods.items()}
    first = found["rows one by one"][1]
    return {name: (taken, (whole - first).abs().max().item()) for name, (taken, whole) in found.items()}


def main() -> None:
    args = arguments()
    flambeau.manual_seed(0)
    loop, batch, difference = sample_gradients(args.samples, args.runs)
    times = f"loop {loop:.1f} ms, vmap {batch:.1f} ms, {loop / batch:.1f} times as fast"
    print(f"gradients of {args.samples} samples: {times}, {difference:.0e} apart")
    for name, (taken, apart) in jacobians(args.outputs, args.runs).items():
        print(f"Jacobian of {args.outputs} x {args.outputs}, {name}: {taken:.2f} ms, {apart:.0e} apart")


if __name__ == "__main__":
    main()
