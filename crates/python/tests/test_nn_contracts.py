"""What layers and their helpers promise, with cases that are drawn: states, masks, paddings, lengths, first rates."""

from __future__ import annotations

import math
import random

import pytest

import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F
from flambeau.nn.utils import clip_grad_norm_
from flambeau.optim import lr_scheduler as schedules
from flambeau.utils.data import RandomSampler

BASE = 0.4


def small_net(rng):
    """A net of a few layers, and its state."""
    layers = [nn.Linear(3, 3), nn.BatchNorm1d(3), nn.PReLU(), nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU())]
    net = nn.Sequential(*rng.sample(layers, rng.randint(1, 4)))
    return net, net.state_dict()


@pytest.mark.parametrize("seed", range(40))
def test_loading_tells_what_is_missing_and_what_is_too_much(seed):
    rng = random.Random(seed)
    net, state = small_net(rng)
    # That one is made where an old state has none.
    names = [name for name in state if not name.endswith("num_batches_tracked")]
    gone = set(rng.sample(names, rng.randint(0, len(names))))
    more = rng.sample(["x", "0.y", "0.0.y", "7.weight", "_extra_state", "0.weight.more", ".", ""], rng.randint(0, 3))
    given = {name: tensor + 1 for name, tensor in state.items() if name not in gone}
    given.update({name: flambeau.ones(1) for name in more})
    before = {name: tensor.clone() for name, tensor in state.items()}
    keys = net.load_state_dict(given, strict=False)
    assert set(keys.missing_keys) == gone and len(keys.missing_keys) == len(gone)
    assert set(keys.unexpected_keys) == set(more) and len(keys.unexpected_keys) == len(more)
    assert ("All keys matched" in repr(keys)) == (not gone and not more)
    for name, tensor in net.state_dict().items():
        assert flambeau.equal(tensor, before[name] + (name not in gone))
    if gone or more:
        with pytest.raises(RuntimeError, match="Missing" if gone else "Unexpected"):
            net.load_state_dict(given)


def attention(seed, need_weights):
    """What attention answers under masks of which some rows hide everything, and all gradients."""
    rng = random.Random(seed)
    flambeau.manual_seed(seed)
    layer = nn.MultiheadAttention(8, 2, add_bias_kv=rng.random() < 0.2, add_zero_attn=rng.random() < 0.2)
    x = flambeau.randn(4, 2, 8, requires_grad=True)
    mask, padding = flambeau.rand(4, 4) < 0.4, flambeau.rand(2, 4) < 0.3
    mask[rng.randrange(4)] = True
    padding[rng.randrange(2)] = rng.random() < 0.5
    if rng.random() < 0.5:
        mask, padding = (m.float().masked_fill(m, -math.inf) for m in (mask, padding))
    masks = {"attn_mask": mask, "key_padding_mask": padding if rng.random() < 0.6 else None}
    found, looked = layer(x, x, x, need_weights=need_weights, **masks)
    (found * found).sum().backward()
    return looked, [found.detach(), x.grad, *(param.grad for param in layer.parameters())]


@pytest.mark.parametrize("seed", range(20))
def test_who_may_look_at_nothing_sees_nothing(seed):
    looked, with_weights = attention(seed, True)
    _, without = attention(seed, False)
    assert looked.isfinite().all()
    for one, other in zip(with_weights, without, strict=True):
        assert one.isfinite().all()
        assert flambeau.allclose(one, other, rtol=1e-4, atol=1e-5)


def source_index(mode, at, size):
    """The source index of an index outside of a dimension, computed a step at a time."""
    if mode == "circular":
        return at % size
    if mode == "replicate":
        return min(max(at, 0), size - 1)
    return -at if at < 0 else at if at < size else 2 * (size - 1) - at


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_takes_from_inside(mode):
    rng = random.Random(mode)
    for _ in range(60):
        size, (before, after) = rng.randint(2, 5), (rng.randint(-2, 4), rng.randint(-2, 4))
        x = flambeau.arange(float(size)).reshape(1, 1, size)
        fits = {"reflect": max(before, after) < size, "replicate": True, "circular": max(before, after) <= size}[mode]
        cut = size + min(before, 0) + min(after, 0) if mode == "circular" else size
        if not fits or cut <= 0 or size + before + after <= 0:
            with pytest.raises(RuntimeError):
                F.pad(x, (before, after), mode=mode)
            continue
        if mode == "circular":
            first = max(-before, 0)
            expected = [first + source_index(mode, at, cut) for at in range(-max(before, 0), cut + max(after, 0))]
        else:
            expected = [source_index(mode, at, size) for at in range(-before, size + after)]
        assert F.pad(x, (before, after), mode=mode).flatten().tolist() == expected


def test_padding_that_does_not_fit_is_an_error():
    rng = random.Random(5)
    for _ in range(30):
        padding = [rng.choice([2**62, 2**63 - 1, 2**80, 2**45, 1]) for _ in range(4)]
        padding[rng.randrange(4)] = 2**62
        for layer in (nn.ReplicationPad2d, nn.ReflectionPad2d, nn.CircularPad2d, nn.ZeroPad2d):
            with pytest.raises((RuntimeError, OverflowError, MemoryError, TypeError)):
                layer(tuple(padding))(flambeau.ones(1, 1, 2, 2))


def test_initialisers_return():
    x = flambeau.empty(2**29, 2**29, 3, device="meta")
    assert nn.init.dirac_(x) is x and nn.init.dirac_(x, groups=2**20) is x
    with pytest.raises(ValueError):
        nn.init.dirac_(flambeau.empty(2, 2, 3), groups=0)
    rng = random.Random(3)
    for _ in range(50):
        mean, std, a, b = (rng.choice([0.0, 1.0, -3.0, 1e9, -1e-9, 1e155, math.inf, math.nan]) for _ in range(4))
        try:
            made = nn.init.trunc_normal_(flambeau.empty(5), mean, std, a, b)
        except (ValueError, OverflowError, ZeroDivisionError, RuntimeError):
            continue
        assert made.isfinite().all() or max(map(abs, (mean, a, b))) > 3e38


def test_no_samples_cannot_be_drawn_of():
    for replacement in (False, True):
        with pytest.raises((ValueError, RuntimeError)):
            list(RandomSampler([], replacement=replacement, num_samples=3))


@pytest.mark.parametrize("seed", range(30))
def test_gradients_of_no_elements_have_no_length(seed):
    rng = random.Random(seed)
    sizes = [rng.choice([(0,), (0, 3), (2,), (3, 2), ()]) for _ in range(rng.randint(1, 5))]
    params = [nn.Parameter(flambeau.zeros(size)) for size in sizes]
    for param in params:
        param.grad = flambeau.randn(param.shape)
    order, limit = rng.choice([1.0, 2.0, 3.0, math.inf, -math.inf]), rng.choice([0.1, 1.0, 100.0])
    elements = [abs(e) for param in params for e in param.grad.flatten().tolist()]
    if math.isinf(order):
        expected = (max if order > 0 else min)(elements, default=0.0)
    else:
        expected = sum(e**order for e in elements) ** (1 / order)
    before = [param.grad.clone() for param in params]
    assert clip_grad_norm_(params, limit, order).item() == pytest.approx(expected, rel=1e-5)
    factor = min(1.0, limit / (expected + 1e-6))
    for param, grad in zip(params, before):
        assert flambeau.allclose(param.grad, grad * factor, rtol=1e-5)


FORMS = (
    (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda t: BASE * (0.25 if t < 4 else 1)),
    (lambda o: schedules.LinearLR(o, 0.1, 0.8, 6), lambda t: BASE * (0.1 + 0.7 * min(t, 6) / 6)),
    (lambda o: schedules.ExponentialLR(o, 0.9), lambda t: BASE * 0.9**t),
    (lambda o: schedules.StepLR(o, 3, 0.5), lambda t: BASE * 0.5 ** (t // 3)),
    (lambda o: schedules.LambdaLR(o, lambda t: 1 / (t + 1)), lambda t: BASE / (t + 1)),
)


def optimizer():
    return optim.SGD([nn.Parameter(flambeau.ones(1))], lr=BASE)


def rates(scheduler, steps):
    seen = []
    for _ in range(steps):
        seen.append(scheduler.optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == [seen[-1]]
        scheduler.optimizer.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize("seed", range(40))
def test_a_sequence_steps_its_active_scheduler(seed):
    rng = random.Random(seed)
    chosen = [rng.choice(FORMS) for _ in range(rng.randint(1, 4))]
    milestones = sorted(rng.sample(range(10), len(chosen) - 1))
    if milestones and rng.random() < 0.5:
        milestones[0] = 0
    o = optimizer()
    seen = rates(schedules.SequentialLR(o, [make(o) for make, _ in chosen], milestones), 14)
    starts = [0, *milestones]
    active = [max(i for i, start in enumerate(starts) if start <= t) for t in range(14)]
    assert seen == pytest.approx([chosen[i][1](t - starts[i]) for t, i in enumerate(active)], rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_warm_restarts_go_on_where_they_were_in_a_sequence(seed):
    """As in PyTorch: a milestone sets the number of the step, not how far the wave has come."""
    rng = random.Random(seed)
    last, length, milestone = rng.randint(0, 6), rng.randint(1, 5), rng.randint(1, 6)
    group = {"params": [nn.Parameter(flambeau.ones(1))], "lr": BASE, "initial_lr": BASE}
    o = optim.SGD([group], lr=BASE)
    first = schedules.StepLR(o, 100, last_epoch=last)
    wave = schedules.CosineAnnealingWarmRestarts(o, length, last_epoch=last)
    reached = wave.T_cur
    seen = rates(schedules.SequentialLR(o, [first, wave], [milestone]), 12)
    expected = [
        BASE if t < milestone else BASE * (1 + math.cos(math.pi * ((reached + t - milestone) % length) / length)) / 2
        for t in range(12)
    ]
    assert seen == pytest.approx(expected, rel=1e-9, abs=1e-12)
