"""`nn.utils`: packed sequences, parametrisations, masks and fused layers, against loops and formulas."""

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize, prune, rnn


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_are_as_sequences_one_by_one(kind, bidirectional):
    fl.manual_seed(0)
    layer = kind(3, 4, num_layers=2, bidirectional=bidirectional).double()
    sequences = [fl.randn(length, 3, dtype=fl.float64, requires_grad=True) for length in (2, 5, 3)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    output, last = layer(packed)
    last = last[0] if kind is nn.LSTM else last
    rows = rnn.unpack_sequence(output)
    for index, sequence in enumerate(sequences):
        alone, end = layer(sequence)
        end = end[0] if kind is nn.LSTM else end
        assert fl.allclose(rows[index], alone) and fl.allclose(last[:, index], end)
    sum(row.square().sum() for row in rows).backward()
    gradients = [sequence.grad.clone() for sequence in sequences]
    for sequence, gradient in zip(sequences, gradients):
        sequence.grad = None
        layer(sequence)[0].square().sum().backward()
        assert fl.allclose(sequence.grad, gradient)


def test_padding_and_packing():
    padded = rnn.pad_sequence([fl.tensor([1, 2, 3]), fl.tensor([4])], batch_first=True, padding_value=-1)
    assert padded.tolist() == [[1, 2, 3], [4, -1, -1]]
    left = rnn.pad_sequence([fl.tensor([1, 2]), fl.tensor([4])], padding_side="left")
    assert left.tolist() == [[1, 0], [2, 4]]
    packed = rnn.pack_padded_sequence(padded, [3, 1], batch_first=True)
    assert packed.data.tolist() == [1, 4, 2, 3] and packed.batch_sizes.tolist() == [2, 1, 1]
    back, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1, total_length=4)
    assert back.tolist() == [[1, 2, 3, -1], [4, -1, -1, -1]] and lengths.tolist() == [3, 1]
    with pytest.raises(RuntimeError, match="decreasing order"):
        rnn.pack_padded_sequence(padded, [1, 3], batch_first=True)


def test_weight_norm_of_both_kinds():
    layer = nn.Linear(3, 2)
    weight = layer.weight.detach().clone()
    old = nn.utils.weight_norm(nn.Linear(3, 2))
    new = parametrizations.weight_norm(layer)
    assert fl.allclose(new.weight, weight, atol=1e-6)
    assert sorted(name for name, _ in new.named_parameters()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert sorted(name for name, _ in old.named_parameters()) == ["bias", "weight_g", "weight_v"]
    new.load_state_dict(old.state_dict())
    assert fl.allclose(new.weight, old(fl.eye(3)).t() - old.bias[:, None], atol=1e-6)
    (new.weight * fl.arange(6.0).reshape(2, 3)).sum().backward()
    # Along the direction itself the gradient is 0: its length does not matter.
    v = new.parametrizations.weight.original1
    assert fl.allclose((v.grad * v).sum(1), fl.zeros(2), atol=1e-5)
    nn.utils.remove_weight_norm(old)
    assert isinstance(old.weight, nn.Parameter)


@pytest.mark.parametrize("make", [nn.utils.spectral_norm, parametrizations.spectral_norm])
def test_spectral_norm_is_the_largest_singular_value(make):
    layer = make(nn.Linear(5, 4), n_power_iterations=30)
    for _ in range(3):
        layer(fl.ones(1, 5))
    assert abs(np.linalg.svd(layer.weight.detach().numpy())[1][0] - 1) < 1e-4


def test_parametrizations_compose_and_come_off():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).t()

        def right_inverse(self, x):
            return x.triu()

    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.weight.equal(layer.weight.t()) and parametrize.is_parametrized(layer, "weight")
    target = fl.tensor([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]])
    layer.weight = target
    assert fl.allclose(layer.weight, target)
    with parametrize.cached():
        assert layer.weight is layer.weight
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter) and fl.allclose(layer.weight, target)


def test_pruning():
    layer = nn.Linear(4, 3)
    with fl.no_grad():
        layer.weight.copy_(fl.arange(1.0, 13).reshape(3, 4))
    prune.l1_unstructured(layer, "weight", 4)
    assert (layer.weight == 0).sum() == 4 and layer.weight[0].tolist() == [0, 0, 0, 0]
    prune.ln_structured(layer, "weight", 1, n=2, dim=0)
    assert prune.is_pruned(layer) and [name for name, _ in layer.named_buffers()] == ["weight_mask"]
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer) and isinstance(layer.weight, nn.Parameter)
    layers = [nn.Linear(4, 3), nn.Linear(3, 2)]
    prune.global_unstructured([(part, "weight") for part in layers], prune.L1Unstructured, amount=0.5)
    assert sum(int((part.weight == 0).sum()) for part in layers) == 9


def test_fused_convolutions_normalise():
    fl.manual_seed(0)
    conv, norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    norm(fl.randn(8, 4, 2, 2) * 3 + 1)
    model = nn.Sequential(conv, norm).eval()
    x = fl.randn(2, 3, 6, 6)
    assert fl.allclose(nn.utils.fuse_conv_bn_eval(conv, norm)(x), model(x), atol=1e-5)


def test_sparse_and_old_names_of_initialisation():
    w = nn.init.sparse_(fl.empty(10, 4), 0.3)
    assert (w == 0).sum(0).tolist() == [3, 3, 3, 3]
    assert nn.init.xavier_uniform is nn.init.xavier_uniform_ and nn.init._calculate_fan_in_and_fan_out(fl.empty(2, 3, 5)) == (15, 10)
    if not hasattr(fl.linalg, "qr"):
        pytest.skip("there is no QR decomposition")
    q = nn.init.orthogonal_(fl.empty(3, 5), 2.0)
    assert fl.allclose(q @ q.t(), 4 * fl.eye(3), atol=1e-5)
