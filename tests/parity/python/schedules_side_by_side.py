"""Learning rates and momenta of every schedule beside PyTorch's, which must be the same to the last bit.

Run it with a Python that has both packages: `python tests/parity/python/schedules_side_by_side.py`.
"""

from __future__ import annotations

import sys
import warnings

import torch

import flambeau

STEPS = 60
SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 7),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [5, 5, 20]),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.95),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "LinearLR": lambda s, o: s.LinearLR(o, total_iters=9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 20, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 13, 1e-3),
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda t: 0.9**t, lambda t: 1 / (t + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda t: 0.97),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, STEPS),
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=6, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"
    ),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, 1e-4),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=3, cooldown=2),
    "ReduceLROnPlateau, max": lambda s, o: s.ReduceLROnPlateau(o, "max", patience=2, threshold_mode="abs"),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, total_iters=5), s.CosineAnnealingLR(o, 30), s.ExponentialLR(o, 0.9)], [5, 35]
    ),
    "SequentialLR of SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.9)], [3]), s.CosineAnnealingLR(o, 30)], [12]
    ),
    "SequentialLR to restarts": lambda s, o: s.SequentialLR(o, [s.LinearLR(o), s.CosineAnnealingWarmRestarts(o, 7, 2)], [12]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.9)]),
}
MEASUREMENTS = (1.0, 0.9, 0.95, 0.91, 0.92, 0.93, 0.94)


def run(lib, make):
    """Rates and momenta of two groups at each step."""
    params = [lib.nn.Parameter(lib.zeros(2)) for _ in range(2)]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.03}]
    optimizer = lib.optim.SGD(groups, lr=0.1, momentum=0.9)
    scheduler = make(lib.optim.lr_scheduler, optimizer)
    seen = []
    for step in range(STEPS):
        seen.append([(group["lr"], group["momentum"]) for group in optimizer.param_groups])
        optimizer.step()
        plateau = isinstance(scheduler, lib.optim.lr_scheduler.ReduceLROnPlateau)
        scheduler.step(*([MEASUREMENTS[step % 7] if step < 20 else 0.9] if plateau else []))
    return seen, scheduler.get_last_lr()


def main():
    warnings.simplefilter("ignore")
    wrong = [name for name, make in SCHEDULES.items() if run(flambeau, make) != run(torch, make)]
    print(f"{len(SCHEDULES)} schedules over {STEPS} steps, {len(wrong)} differ{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
