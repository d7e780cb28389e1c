"""Recurrent networks beside their formulas in NumPy's float64, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau import nn

RNG = np.random.default_rng(13)
LENGTH, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6


def here(array, grad=False):
    return flambeau.tensor(np.asarray(array).tolist(), dtype=flambeau.float64).requires_grad_(grad)


def there(tensor):
    return np.array(tensor.tolist())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn(x, state, w, u, b, c):
    return (np.tanh(x @ w.T + b + state[0] @ u.T + c),)


def gru(x, state, w, u, b, c):
    xs, hs = np.split(x @ w.T + b, 3, -1), np.split(state[0] @ u.T + c, 3, -1)
    reset, keep = sigmoid(xs[0] + hs[0]), sigmoid(xs[1] + hs[1])
    return ((1 - keep) * np.tanh(xs[2] + reset * hs[2]) + keep * state[0],)


def lstm(x, state, w, u, b, c):
    take, keep, new, show = np.split(x @ w.T + b + state[0] @ u.T + c, 4, -1)
    memory = sigmoid(keep) * state[1] + sigmoid(take) * np.tanh(new)
    return sigmoid(show) * np.tanh(memory), memory


KINDS = {"RNN": (rnn, 1), "GRU": (gru, 1), "LSTM": (lstm, 2)}


def reference(layer, name, x, begin):
    """All steps of all layers in all directions, and the states at the end."""
    step, _ = KINDS[name]
    directions = ["", "_reverse"] if layer.bidirectional else [""]
    ends = []
    for number in range(layer.num_layers):
        of_directions = []
        for direction in directions:
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            params = [there(getattr(layer, f"{part}_l{number}{direction}")) for part in names]
            state = tuple(part[len(ends)] for part in begin)
            outputs = []
            for one in x[::-1] if direction else x:
                state = step(one, state, *params)
                outputs.append(state[0])
            ends.append(state)
            of_directions.append(np.stack(outputs[::-1] if direction else outputs))
        x = np.concatenate(of_directions, -1)
    return x, [np.stack(part) for part in zip(*ends)]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}], ids=["one", "many"])
@pytest.mark.parametrize("name", KINDS)
def test_all_steps(name, options, given):
    layer, states = getattr(nn, name)(WIDTH, HIDDEN, **options).double(), KINDS[name][1]
    x, count = RNG.normal(size=(LENGTH, BATCH, WIDTH)), layer.num_layers * (2 if layer.bidirectional else 1)
    begin = [RNG.normal(size=(count, BATCH, HIDDEN)) if given else np.zeros((count, BATCH, HIDDEN))
             for _ in range(states)]
    outputs, ends = reference(layer, name, x, begin)
    hx = tuple(map(here, begin)) if given else None
    made, last = layer(here(x), hx if states > 1 or hx is None else hx[0])
    np.testing.assert_allclose(there(made), outputs, rtol=1e-12, atol=1e-13)
    for ours, theirs in zip(last if states > 1 else (last,), ends):
        np.testing.assert_allclose(there(ours), theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", KINDS)
def test_layouts_agree(name):
    layer = getattr(nn, name)(WIDTH, HIDDEN, batch_first=True).double()
    x = here(RNG.normal(size=(BATCH, LENGTH, WIDTH)))
    outputs, last = layer(x)
    state = last[0] if isinstance(last, tuple) else last
    assert outputs.shape == (BATCH, LENGTH, HIDDEN) and state.shape == (1, BATCH, HIDDEN)
    for sample in range(BATCH):
        single, _ = layer(x[sample])
        np.testing.assert_allclose(there(single), there(outputs[sample]), rtol=1e-13)
    np.testing.assert_allclose(there(outputs[:, -1]), there(state[0]), rtol=1e-14)


@pytest.mark.parametrize("name", KINDS)
def test_cells_are_one_step(name):
    cell, (step, states) = getattr(nn, name + "Cell")(WIDTH, HIDDEN).double(), KINDS[name]
    x, state = RNG.normal(size=(BATCH, WIDTH)), tuple(RNG.normal(size=(BATCH, HIDDEN)) for _ in range(states))
    expected = step(x, state, *(there(getattr(cell, part)) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))
    made = cell(here(x), tuple(map(here, state)) if states > 1 else here(state[0]))
    for ours, theirs in zip(made if states > 1 else (made,), expected):
        np.testing.assert_allclose(there(ours), theirs, rtol=1e-12)
    assert (made[0] if states > 1 else made).shape == (BATCH, HIDDEN)
    alone = cell(here(x[0]))
    np.testing.assert_allclose(there(alone[0] if states > 1 else alone), there(cell(here(x))[0][0] if states > 1 else cell(here(x))[0]))


@pytest.mark.parametrize("name", KINDS)
def test_gradients_are_differences(name):
    layer = getattr(nn, name)(2, 3, num_layers=2, bidirectional=True).double()
    x, weights = RNG.normal(size=(3, 2, 2)), here(RNG.normal(size=(3, 2, 6)))
    loss = lambda values: (layer(values)[0] * weights).sum()  # noqa: E731
    given = here(x, grad=True)
    loss(given).backward()
    for index in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        slope = (loss(here(up)).item() - loss(here(down)).item()) / 2e-6
        assert given.grad[index].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)
    assert all(param.grad is not None for param in layer.parameters())


def test_projections_narrow_what_is_shown():
    layer = nn.LSTM(WIDTH, HIDDEN, num_layers=2, proj_size=2)
    outputs, (shown, memory) = layer(flambeau.randn(LENGTH, BATCH, WIDTH))
    assert outputs.shape == (LENGTH, BATCH, 2) and shown.shape == (2, BATCH, 2) and memory.shape == (2, BATCH, HIDDEN)
    assert layer.weight_hr_l0.shape == (2, HIDDEN) and layer.weight_ih_l1.shape == (4 * HIDDEN, 2)


def test_dropout_is_between_layers():
    x = flambeau.randn(LENGTH, BATCH, WIDTH)
    layer = nn.GRU(WIDTH, HIDDEN, num_layers=2, dropout=0.9)
    assert layer(x)[0].tolist() != layer(x)[0].tolist()
    assert layer.eval()(x)[0].tolist() == layer(x)[0].tolist()
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.GRU(WIDTH, HIDDEN, dropout=0.5)


def test_what_does_not_fit():
    layer = nn.LSTM(WIDTH, HIDDEN)
    with pytest.raises(RuntimeError, match="Expected 4, got 3"):
        layer(flambeau.ones(2, 2, 3))
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 6\), got"):
        layer(flambeau.ones(2, 2, 4), (flambeau.ones(1, 3, 6), flambeau.ones(1, 3, 6)))
    with pytest.raises(ValueError, match="2D or 3D, got 1D"):
        layer(flambeau.ones(4))
    with pytest.raises(ValueError, match="smaller than hidden_size"):
        nn.LSTM(WIDTH, HIDDEN, proj_size=6)
    with pytest.raises(ValueError, match="Unknown nonlinearity"):
        nn.RNN(WIDTH, HIDDEN, nonlinearity="sine")


def test_names():
    layer = nn.LSTM(WIDTH, HIDDEN, num_layers=2, bidirectional=True)
    assert [name for name, _ in layer.named_parameters()][4:8] == [
        "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"
    ]
    assert [len(part) for part in layer.all_weights] == [4] * 4
    assert repr(layer) == "LSTM(4, 6, num_layers=2, bidirectional=True)"
