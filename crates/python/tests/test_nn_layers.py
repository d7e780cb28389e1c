"""Layers beside formulas in NumPy's float64, and their gradients beside differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

RNG = np.random.default_rng(7)


def here(array, grad=False):
    made = flambeau.tensor(np.asarray(array).tolist(), dtype=flambeau.float64)
    return made.requires_grad_(grad)


def there(tensor):
    return np.array(tensor.tolist(), dtype=np.float64)


def erf(x):
    return np.vectorize(math.erf)(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    return np.exp(x - x.max(axis, keepdims=True)) / np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True)


POINTWISE = {
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "SELU": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "CELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "LeakyReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "PReLU": lambda x: np.where(x > 0, x, 0.25 * x),
    "GELU": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "SiLU": lambda x: x * sigmoid(x),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "LogSigmoid": lambda x: -np.log1p(np.exp(-x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + abs(x)),
    "Tanhshrink": lambda x: x - np.tanh(x),
    "Softshrink": lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
    "Hardshrink": lambda x: np.where(abs(x) > 0.5, x, 0),
    "Hardtanh": lambda x: np.clip(x, -1, 1),
    "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


@pytest.mark.parametrize("name", POINTWISE)
def test_functions_of_elements(name):
    x = RNG.uniform(-5, 5, (3, 7))
    layer = getattr(nn, name)().double()
    np.testing.assert_allclose(there(layer(here(x))), POINTWISE[name](x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["ReLU", "ReLU6", "ELU", "SELU", "CELU", "LeakyReLU", "SiLU", "Mish", "Hardtanh"])
def test_functions_that_write_over_their_input(name):
    x = RNG.uniform(-5, 5, (3, 7))
    given = here(x)
    assert getattr(nn, name)(inplace=True)(given) is given
    np.testing.assert_allclose(there(given), POINTWISE[name](x), rtol=1e-12, atol=1e-14)


def numeric_gradient(function, x, step=1e-6):
    """Differences on both sides of each element."""
    grad = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        grad[index] = (function(up) - function(down)) / (2 * step)
    return grad


LAYERS = [
    (lambda: nn.Linear(4, 3), (5, 4)),
    (lambda: nn.Conv1d(2, 3, 3, padding="same", padding_mode="circular"), (2, 2, 5)),
    (lambda: nn.Conv2d(2, 4, 2, stride=2, padding=1, groups=2), (2, 2, 4, 3)),
    (lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), (1, 1, 4, 3)),
    (lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (2, 2, 4)),
    (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2, output_padding=1), (1, 2, 3, 2)),
    (lambda: nn.BatchNorm1d(3), (4, 3)),
    (lambda: nn.InstanceNorm1d(3), (2, 3, 5)),
    (lambda: nn.LayerNorm(4), (3, 4)),
    (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
    (lambda: nn.RMSNorm(4), (3, 4)),
    (lambda: nn.AvgPool1d(2), (1, 2, 6)),
    (lambda: nn.AdaptiveAvgPool2d((2, None)), (1, 2, 5, 3)),
    (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (2, 3, 4)),
    (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0), (3, 2, 4)),
    (lambda: nn.GLU(), (3, 4)),
    (lambda: nn.Softshrink(), (3, 4)),
    (lambda: nn.PReLU(3), (2, 3, 2)),
    (lambda: nn.ReplicationPad2d((1, 0, 2, 1)), (1, 1, 3, 2)),
]


@pytest.mark.parametrize("make, shape", LAYERS, ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else "")
def test_gradients_are_differences(make, shape):
    layer, x = make().double(), RNG.normal(size=shape)
    call = (lambda t: layer(t, t, t)[0]) if isinstance(layer, nn.MultiheadAttention) else layer
    weights = here(RNG.normal(size=tuple(call(here(x)).shape)))

    def loss(values):
        return (call(here(values)) * weights).sum().item()

    given = here(x, grad=True)
    (call(given) * weights).sum().backward()
    np.testing.assert_allclose(there(given.grad), numeric_gradient(loss, x), rtol=1e-5, atol=1e-7)
    for param in layer.parameters():
        before = there(param)

        def loss_of_param(values):
            param.data.copy_(here(values))
            result = loss(x)
            param.data.copy_(here(before))
            return result

        np.testing.assert_allclose(there(param.grad), numeric_gradient(loss_of_param, before), rtol=1e-5, atol=1e-7)


def test_linear():
    layer, x = nn.Linear(4, 3).double(), RNG.normal(size=(2, 5, 4))
    expected = x @ there(layer.weight).T + there(layer.bias)
    np.testing.assert_allclose(there(layer(here(x))), expected, rtol=1e-13)


def correlate(x, weight, stride, padding, dilation):
    """A convolution of one picture, position by position."""
    x = np.pad(x, [(0, 0), *((p, p) for p in padding)])
    reach = [dilation[i] * (weight.shape[2 + i] - 1) + 1 for i in range(2)]
    size = [(x.shape[1 + i] - reach[i]) // stride[i] + 1 for i in range(2)]
    out = np.zeros((weight.shape[0], *size))
    for o, i, j in np.ndindex(*out.shape):
        top, left = i * stride[0], j * stride[1]
        patch = x[:, top : top + reach[0] : dilation[0], left : left + reach[1] : dilation[1]]
        out[o, i, j] = (patch * weight[o]).sum()
    return out


@pytest.mark.parametrize("stride, padding, dilation", [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2)), ((3, 2), (2, 0), (2, 1))])
def test_conv2d(stride, padding, dilation):
    layer = nn.Conv2d(3, 4, (3, 2), stride, padding, dilation).double()
    x = RNG.normal(size=(2, 3, 8, 7))
    expected = np.stack([correlate(one, there(layer.weight), stride, padding, dilation) for one in x])
    expected += there(layer.bias)[:, None, None]
    np.testing.assert_allclose(there(layer(here(x))), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode, pad", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"), ("constant", "constant")])
def test_padding_is_numpys(mode, pad):
    x = RNG.normal(size=(2, 3, 4, 5))
    expected = np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 2)], mode=pad)
    np.testing.assert_array_equal(there(F.pad(here(x), (1, 2, 3, 0), mode=mode)), expected)


def test_padding_that_does_not_fit():
    with pytest.raises(RuntimeError, match="should be less than the corresponding input dimension"):
        F.pad(flambeau.ones(1, 1, 3), (3, 0), mode="reflect")
    with pytest.raises(RuntimeError, match="wrapping around more than once"):
        F.pad(flambeau.ones(1, 1, 3), (4, 0), mode="circular")
    with pytest.raises(NotImplementedError, match="Unrecognised padding mode"):
        F.pad(flambeau.ones(1, 1, 3), (1, 0), mode="mirror")
    with pytest.raises(ValueError, match="padding_mode must be one of"):
        nn.Conv2d(1, 1, 1, padding_mode="mirror")
    with pytest.raises(ValueError, match="not supported for strided"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")


def test_transposed_convolution_sizes():
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2, padding=1)
    x = flambeau.ones(1, 1, 6, 6)
    assert layer(x).shape == (1, 1, 11, 11)
    assert layer(x, output_size=(12, 11)).shape == (1, 1, 12, 11)
    with pytest.raises(ValueError, match="requested an output size"):
        layer(x, output_size=(13, 11))


def test_batch_norm_follows_what_it_sees():
    layer = nn.BatchNorm1d(3, momentum=0.3).double()
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(4):
        x = RNG.normal(2, 3, size=(6, 3))
        out = there(layer(here(x)))
        np.testing.assert_allclose(out, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-12, atol=1e-13)
        mean, var = 0.7 * mean + 0.3 * x.mean(0), 0.7 * var + 0.3 * x.var(0, ddof=1)
    np.testing.assert_allclose(there(layer.running_mean), mean, rtol=1e-12)
    np.testing.assert_allclose(there(layer.running_var), var, rtol=1e-12)
    assert layer.num_batches_tracked.item() == 4 and layer.num_batches_tracked.dtype == flambeau.int64
    layer.eval()
    x = RNG.normal(size=(2, 3))
    np.testing.assert_allclose(there(layer(here(x))), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-12)
    layer.reset_running_stats()
    assert there(layer.running_var).tolist() == [1.0] * 3


def test_batch_norm_without_momentum_is_the_mean_of_all():
    layer = nn.BatchNorm1d(2, momentum=None).double()
    means = []
    for _ in range(3):
        x = RNG.normal(size=(5, 2))
        means.append(x.mean(0))
        layer(here(x))
    np.testing.assert_allclose(there(layer.running_mean), np.mean(means, 0), rtol=1e-12)


def test_norms_refuse_what_they_cannot_do():
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.BatchNorm2d(2)(flambeau.ones(1, 2, 3))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(2)(flambeau.ones(1, 2))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        nn.InstanceNorm1d(2)(flambeau.ones(3, 2, 1))
    with pytest.raises(ValueError, match="divisible by num_groups"):
        nn.GroupNorm(2, 3)


def test_other_norms():
    x = RNG.normal(1, 2, size=(2, 4, 5))
    normal = lambda y, axes: (y - y.mean(axes, keepdims=True)) / np.sqrt(y.var(axes, keepdims=True) + 1e-5)  # noqa: E731
    for layer, expected in (
        (nn.LayerNorm(5), normal(x, -1)),
        (nn.LayerNorm((4, 5)), normal(x, (1, 2))),
        (nn.InstanceNorm1d(4), normal(x, -1)),
        (nn.GroupNorm(2, 4), normal(x.reshape(2, 2, 10), -1).reshape(x.shape)),
        (nn.RMSNorm(5, eps=1e-3), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3)),
    ):
        np.testing.assert_allclose(there(layer.double()(here(x))), expected, rtol=1e-11, atol=1e-12)


def windows(x, size, stride):
    return np.stack([x[..., begin : begin + size] for begin in range(0, x.shape[-1] - size + 1, stride)], -2)


def test_pooling():
    x = RNG.normal(size=(2, 3, 9))
    np.testing.assert_array_equal(there(nn.MaxPool1d(3, 2)(here(x))), windows(x, 3, 2).max(-1))
    np.testing.assert_allclose(there(nn.AvgPool1d(3, 2)(here(x))), windows(x, 3, 2).mean(-1), rtol=1e-13)
    values, indices = nn.MaxPool1d(3, return_indices=True)(here(x))
    np.testing.assert_array_equal(np.take_along_axis(x, there(indices).astype(int), -1), there(values))
    picture = RNG.normal(size=(2, 3, 4, 6))
    blocks = picture.reshape(2, 3, 2, 2, 3, 2)
    np.testing.assert_array_equal(there(nn.MaxPool2d(2)(here(picture))), blocks.max((3, 5)))
    np.testing.assert_allclose(there(nn.AvgPool2d(2)(here(picture))), blocks.mean((3, 5)), rtol=1e-13)
    np.testing.assert_allclose(there(nn.AdaptiveAvgPool2d((2, 3))(here(picture))), blocks.mean((3, 5)), rtol=1e-13)
    np.testing.assert_allclose(there(nn.AdaptiveAvgPool1d(3)(here(x))), x.reshape(2, 3, 3, 3).mean(-1), rtol=1e-13)


def test_embedding():
    layer = nn.Embedding(6, 3, padding_idx=-2).double()
    assert layer.padding_idx == 4 and there(layer.weight)[4].tolist() == [0.0] * 3
    index = flambeau.tensor([[0, 4], [5, 0]])
    out = layer(index)
    np.testing.assert_array_equal(there(out), there(layer.weight)[np.array([[0, 4], [5, 0]])])
    out.sum().backward()
    assert there(layer.weight.grad)[:, 0].tolist() == [2.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    short = nn.Embedding(6, 3, max_norm=0.5).double()
    long_rows = np.linalg.norm(there(short.weight), axis=1)
    short(index)
    lengths = np.linalg.norm(there(short.weight), axis=1)
    used = [0, 4, 5]
    assert (lengths[used] <= 0.5 + 1e-6).all() and (lengths[[1, 2, 3]] == long_rows[[1, 2, 3]]).all()
    frozen = nn.Embedding.from_pretrained(flambeau.ones(2, 3))
    assert not frozen.weight.requires_grad and frozen(flambeau.tensor([1])).tolist() == [[1.0] * 3]


def test_attention_is_its_formula():
    layer = nn.MultiheadAttention(6, 2, batch_first=True).double()
    q, k = RNG.normal(size=(2, 3, 6)), RNG.normal(size=(2, 4, 6))
    hidden = np.zeros((2, 3, 4), dtype=bool)
    hidden[:, 0, 2:] = True
    padding = np.array([[False, False, False, True], [False] * 4])
    masks = {"attn_mask": flambeau.tensor(hidden[0].tolist()), "key_padding_mask": flambeau.tensor(padding.tolist())}
    weight, bias = there(layer.in_proj_weight), there(layer.in_proj_bias)
    parts = [x @ weight[6 * i : 6 * i + 6].T + bias[6 * i : 6 * i + 6] for i, x in enumerate((q, k, k))]
    heads = [part.reshape(2, -1, 2, 3).transpose(0, 2, 1, 3) for part in parts]
    scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / math.sqrt(3)
    scores = np.where(hidden[:, None] | padding[:, None, None], -np.inf, scores)
    looked = softmax(scores, -1)
    found = (looked @ heads[2]).transpose(0, 2, 1, 3).reshape(2, 3, 6)
    expected = found @ there(layer.out_proj.weight).T + there(layer.out_proj.bias)
    for need_weights in (True, False):
        out, weights = layer(here(q), here(k), here(k), need_weights=need_weights, **masks)
        np.testing.assert_allclose(there(out), expected, rtol=1e-11, atol=1e-12)
        if need_weights:
            np.testing.assert_allclose(there(weights), looked.mean(1), rtol=1e-11, atol=1e-12)
        else:
            assert weights is None


def test_causal_attention_sees_nothing_later():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True).double()
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=flambeau.float64)
    x = RNG.normal(size=(1, 5, 8))
    changed = x.copy()
    changed[:, 3:] += 1
    for causal in (False, True):
        first, second = (there(layer(here(y), mask, is_causal=causal)) for y in (x, changed))
        np.testing.assert_allclose(first[:, :3], second[:, :3], rtol=1e-12)
        assert abs(first[:, 3:] - second[:, 3:]).max() > 1e-3


def test_dropout():
    flambeau.manual_seed(0)
    x = flambeau.ones(200, 200, dtype=flambeau.float64)
    out = there(nn.Dropout(0.3)(x))
    assert set(np.unique(out)) == {0.0, 1 / 0.7}
    # Five standard deviations of a mean of 40,000 draws.
    assert abs((out == 0).mean() - 0.3) < 5 * math.sqrt(0.3 * 0.7 / 40_000)
    assert nn.Dropout(0.3).eval()(x) is x or there(nn.Dropout(0.3).eval()(x)).min() == 1.0
    channels = there(nn.Dropout2d(0.5)(flambeau.ones(50, 8, 3, 3)))
    assert set(np.unique(channels)) == {0.0, 2.0} and (channels.std((2, 3)) == 0).all()
    normal = flambeau.randn(300, 300, dtype=flambeau.float64)
    out = there(nn.AlphaDropout(0.4)(normal))
    assert abs(out.mean()) < 0.02 and abs(out.std() - 1) < 0.02
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_gumbel_softmax_draws_by_likelihood():
    flambeau.manual_seed(2)
    likelihoods = np.array([0.2, 0.5, 0.3])
    logits = here(np.tile(np.log(likelihoods), (20_000, 1)), grad=True)
    drawn = F.gumbel_softmax(logits, tau=0.5, hard=True)
    values = there(drawn)
    assert set(np.unique(values.round(9))) == {0.0, 1.0}
    # Five standard deviations.
    assert (abs(values.mean(0) - likelihoods) < 5 * np.sqrt(likelihoods * (1 - likelihoods) / 20_000)).all()
    (drawn * here(np.arange(3.0))).sum().backward()
    assert abs(there(logits.grad)).sum() > 0
    np.testing.assert_allclose(there(F.gumbel_softmax(logits)).sum(1), 1, rtol=1e-12)
