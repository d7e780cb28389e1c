"""Learning rates beside closed forms, and going on from a saved state."""

from __future__ import annotations

import math

import pytest

import flambeau
from flambeau import nn, optim
from flambeau.optim import lr_scheduler as schedules

BASE = 0.4


def optimizer(groups=1, **options):
    params = [{"params": nn.Parameter(flambeau.ones(1)), "lr": BASE / (index + 1)} for index in range(groups)]
    return optim.SGD(params, lr=BASE, **{"momentum": 0.9, **options})


def rates(scheduler, steps):
    """The rate of the first group at each step."""
    seen = []
    for _ in range(steps):
        seen.append(scheduler.optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr()[0] == seen[-1]
        scheduler.optimizer.step()
        scheduler.step()
    return seen


def one_cycle(step, total=20, top=1.0, first=1.0 / 25, low=1.0 / 25 / 1e4):
    peak = 0.3 * total - 1
    begin, end, part = (first, top, step / peak) if step <= peak else (top, low, (step - peak) / (total - 1 - peak))
    return end + (begin - end) / 2 * (1 + math.cos(math.pi * part))


def restarts(step, first=4, factor=2, low=0.01):
    length = first
    while step >= length:
        step, length = step - length, length * factor
    return low + (BASE - low) * (1 + math.cos(math.pi * step / length)) / 2


FORMS = {
    "step": (lambda o: schedules.StepLR(o, 3, gamma=0.5), lambda t: BASE * 0.5 ** (t // 3)),
    "milestones": (lambda o: schedules.MultiStepLR(o, [2, 2, 9]), lambda t: BASE * 0.1 ** (2 * (t >= 2) + (t >= 9))),
    "exponential": (lambda o: schedules.ExponentialLR(o, 0.9), lambda t: BASE * 0.9**t),
    "constant": (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda t: BASE * (0.25 if t < 4 else 1)),
    "linear": (lambda o: schedules.LinearLR(o, 0.1, 0.8, 10), lambda t: BASE * (0.1 + 0.7 * min(t, 10) / 10)),
    "polynomial": (lambda o: schedules.PolynomialLR(o, 12, 2.0), lambda t: BASE * (1 - min(t, 12) / 12) ** 2),
    "cosine": (lambda o: schedules.CosineAnnealingLR(o, 8, 0.02),
               lambda t: 0.02 + (BASE - 0.02) * (1 + math.cos(math.pi * t / 8)) / 2),
    "lambda": (lambda o: schedules.LambdaLR(o, lambda t: 1 / (t + 1)), lambda t: BASE / (t + 1)),
    "multiplicative": (lambda o: schedules.MultiplicativeLR(o, lambda t: 0.5 if t % 2 else 1.0),
                       lambda t: BASE * 0.5 ** ((t + 1) // 2)),
    "one cycle": (lambda o: schedules.OneCycleLR(o, 1.0, 20), one_cycle),
    "restarts": (lambda o: schedules.CosineAnnealingWarmRestarts(o, 4, 2, 0.01), restarts),
    "sequence": (lambda o: schedules.SequentialLR(o, [schedules.LinearLR(o, 0.5, 1.0, 5), schedules.ExponentialLR(o, 0.8)], [5]),
                 lambda t: BASE * (0.5 + 0.1 * t) if t < 5 else BASE * 0.8 ** (t - 5)),
    "chain": (lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)]),
              lambda t: BASE * 0.9**t * (0.5 if t < 3 else 1)),
}


@pytest.mark.parametrize("name", FORMS)
def test_rates_have_closed_forms(name):
    make, form = FORMS[name]
    seen = rates(make(optimizer()), 20)
    assert seen == pytest.approx([form(t) for t in range(20)], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_a_saved_schedule_goes_on(name):
    make, _ = FORMS[name]
    first, second = make(optimizer()), make(optimizer())
    rates(first, 7)
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert rates(first, 8) == rates(second, 8)


@pytest.mark.parametrize("name", ["step", "milestones", "exponential", "cosine", "linear"])
def test_jumping_to_a_step(name):
    make, form = FORMS[name]
    scheduler = make(optimizer())
    scheduler.optimizer.step()
    scheduler.step(5)
    assert scheduler.get_last_lr() == pytest.approx([form(5)])


def test_groups_keep_their_proportions():
    scheduler = schedules.StepLR(optimizer(groups=3), 1, gamma=0.5)
    scheduler.optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([BASE / 2, BASE / 4, BASE / 6])
    with pytest.raises(ValueError, match="Expected 3 lr_lambdas, but got 1"):
        schedules.LambdaLR(optimizer(groups=3), [lambda t: 1.0])


def test_one_cycle_moves_momentum_in_the_opposite_direction():
    adam = optim.Adam([nn.Parameter(flambeau.ones(1))], lr=0.1)
    for chosen, read in ((optimizer(), lambda g: g["momentum"]), (adam, lambda g: g["betas"][0])):
        scheduler = schedules.OneCycleLR(chosen, 1.0, 20)
        seen = []
        for _ in range(20):
            seen.append(read(chosen.param_groups[0]))
            chosen.step()
            scheduler.step()
        assert seen[0] == 0.95 and seen[5] == pytest.approx(0.85) and seen[19] == pytest.approx(0.95)
    with pytest.raises(ValueError, match="Tried to step 21 times"):
        scheduler.step()
    with pytest.raises(ValueError, match="total_steps OR"):
        schedules.OneCycleLR(optimizer(), 1.0)


def test_plateaus():
    scheduler = schedules.ReduceLROnPlateau(optimizer(), factor=0.5, patience=1, cooldown=1, min_lr=0.07)
    seen = []
    for loss in [1.0, 0.9, 0.95, 0.95, 0.95, 0.95, 0.95, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6]:
        scheduler.step(flambeau.tensor(loss))
        seen.append(scheduler.get_last_lr()[0] / BASE)
    # Two bad ones in a row cut the rate; the one after a cut is not counted; 0.07 is the lowest.
    assert seen == pytest.approx([1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.175, 0.175, 0.175, 0.175])
    rising = schedules.ReduceLROnPlateau(optimizer(), mode="max", patience=0, threshold=0.1, threshold_mode="abs")
    rising.step(1.0)
    rising.step(1.05)
    assert rising.get_last_lr() == pytest.approx([BASE / 10])
    with pytest.raises(ValueError, match="Factor should be < 1.0"):
        schedules.ReduceLROnPlateau(optimizer(), factor=1.0)


def test_the_order_of_steps_is_watched():
    scheduler = schedules.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


def test_resuming_needs_the_first_rate():
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(optimizer(), 1, last_epoch=3)


def test_schedulers_of_one_optimizer():
    with pytest.raises(ValueError, match="same optimizer"):
        schedules.SequentialLR(optimizer(), [schedules.ConstantLR(optimizer())], [])
    chosen = optimizer()
    with pytest.raises(ValueError, match="one more"):
        schedules.SequentialLR(chosen, [schedules.ConstantLR(chosen)], [3])
