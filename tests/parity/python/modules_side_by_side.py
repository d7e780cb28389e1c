"""Every layer beside PyTorch's: text, names of the state, outputs and gradients with the same weights.

Run it with a Python that has both packages: `python tests/parity/python/modules_side_by_side.py`.
"""

from __future__ import annotations

import math
import sys

import torch

import flambeau

# Where PyTorch itself is no better than float32, in its own sources: CELU's gradient takes 1 / alpha as a float, and
# Hardsigmoid multiplies by a float 1 / 6.
LOOSE = {("CELU", "double"): 1e-7, ("Hardsigmoid", "double"): 1e-7}
# PyTorch has no gradient for the target.
NO_TARGET_GRADIENT = ("SoftMarginLoss",)
FLOATS = ("double", "float")
BOUNDS = {"double": 1e-12, "float": 2e-5}


def numbers(*size, low=-2.0, high=2.0):
    """A tensor of PyTorch's of numbers that both sides get."""
    return torch.rand(size, dtype=torch.float64) * (high - low) + low


def classes(*size, count=5):
    return torch.randint(count, size)


def offsets(*size, channel):
    """Distinct offsets in a channel of `channel` elements, for each sample and channel."""
    count = math.prod(size[2:])
    return torch.stack([torch.randperm(channel)[:count] for _ in range(size[0] * size[1])]).view(size)


def labels(*size):
    """Some classes, each once, then -1."""
    rows = torch.stack([torch.randperm(size[1]) for _ in range(size[0])])
    rows[:, 2] = -1
    return rows


def signs(*size):
    return torch.randint(2, size).double() * 2 - 1


# A layer's name, how it is made, and its inputs; tensors of whole numbers stay whole.
picture = (numbers(2, 4, 7, 6),)
line = (numbers(2, 4, 9),)
flat = (numbers(3, 8),)
volume = (numbers(2, 4, 5, 4, 6),)
CASES = [
    *[(name, (), {}, flat) for name in (
        "Identity", "ReLU", "ReLU6", "ELU", "SELU", "CELU", "LeakyReLU", "PReLU", "GELU", "SiLU", "Mish", "Sigmoid", "Tanh",
        "LogSigmoid", "Softplus", "Softsign", "Tanhshrink", "Softshrink", "Hardshrink", "Hardtanh", "Hardsigmoid",
        "Hardswish", "GLU",
    )],
    ("ELU", (0.7,), {}, flat), ("CELU", (0.7,), {}, flat), ("LeakyReLU", (0.3,), {}, flat), ("GELU", ("tanh",), {}, flat),
    ("Softplus", (2.0, 1.0), {}, flat), ("Threshold", (0.3, 7.0), {}, flat), ("Hardtanh", (-0.5, 1.5), {}, flat),
    ("Softshrink", (0.2,), {}, flat), ("PReLU", (4,), {}, picture), ("GLU", (0,), {}, (numbers(4, 3),)),
    *[(name, (), {"inplace": True}, (numbers(3, 8),)) for name in ("ReLU", "ReLU6", "ELU", "SELU", "CELU", "SiLU", "Mish")],
    *[(name, (1,), {}, picture) for name in ("Softmax", "LogSoftmax", "Softmin")],
    ("Softmax2d", (), {}, picture),
    ("Linear", (8, 5), {}, flat), ("Linear", (8, 5), {"bias": False}, flat), ("Flatten", (), {}, picture),
    ("Unflatten", (1, (2, 4)), {}, flat), ("PixelShuffle", (2,), {}, picture),
    ("CosineSimilarity", (), {}, (numbers(4, 5), numbers(4, 5))), ("PairwiseDistance", (), {}, (numbers(4, 5), numbers(4, 5))),
    ("Conv1d", (4, 6, 3), {}, line), ("Conv1d", (4, 6, 4), {"padding": "same"}, line),
    ("Conv1d", (4, 6, 3), {"padding": 2, "padding_mode": "circular"}, line),
    ("Conv2d", (4, 6, 3), {}, picture), ("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": 1, "bias": False}, picture),
    ("Conv2d", (4, 6, 3), {"padding": "same", "dilation": 2}, picture), ("Conv2d", (4, 8, 2), {"groups": 2}, picture),
    ("Conv2d", (4, 6, 2), {"padding": "same"}, picture), ("Conv2d", (4, 6, 2), {"padding": "valid"}, picture),
    ("Conv2d", (4, 6, 3), {"padding": 1, "padding_mode": "reflect"}, picture),
    ("Conv2d", (4, 6, 3), {"padding": (1, 2), "padding_mode": "replicate"}, picture),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, line),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, picture),
    ("Conv3d", (4, 6, 2), {}, volume), ("Conv3d", (4, 6, (3, 2, 1)), {"stride": (2, 1, 1), "padding": (1, 0, 2)}, volume),
    ("Conv3d", (4, 8, 2), {"groups": 4, "dilation": 2, "bias": False}, volume), ("Conv3d", (4, 3, 2), {"padding": "same"}, volume),
    ("Conv3d", (4, 3, 3), {"padding": 1, "padding_mode": "circular"}, volume),
    ("ConvTranspose3d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, volume),
    ("ConvTranspose3d", (4, 6, 2), {"groups": 2, "dilation": 2}, volume),
    ("BatchNorm1d", (8,), {}, flat), ("BatchNorm1d", (4,), {"momentum": None}, line), ("BatchNorm2d", (4,), {}, picture),
    ("BatchNorm2d", (4,), {"affine": False, "track_running_stats": False}, picture),
    ("BatchNorm3d", (2,), {}, (numbers(2, 2, 3, 3, 2),)),
    ("InstanceNorm1d", (4,), {}, line), ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, picture),
    ("InstanceNorm2d", (4,), {}, (numbers(4, 3, 3),)), ("InstanceNorm3d", (2,), {}, (numbers(2, 2, 3, 3, 2),)),
    ("LayerNorm", (8,), {}, flat), ("LayerNorm", ((7, 6),), {"bias": False}, picture), ("RMSNorm", (8,), {}, flat),
    ("GroupNorm", (2, 4), {}, picture), ("GroupNorm", (4, 4), {"affine": False}, picture),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, line), ("MaxPool2d", (2,), {}, picture),
    ("MaxPool2d", ((3, 2),), {"stride": 2, "padding": 1, "ceil_mode": True}, picture),
    ("AvgPool1d", (3,), {"padding": 1}, line), ("AvgPool2d", (2,), {"count_include_pad": False, "padding": 1}, picture),
    ("AdaptiveAvgPool1d", (3,), {}, line), ("AdaptiveAvgPool2d", ((3, None),), {}, picture),
    ("AdaptiveAvgPool2d", (1,), {}, picture),
    ("MaxPool3d", (2,), {}, volume), ("MaxPool3d", ((3, 2, 2),), {"stride": 2, "padding": 1, "ceil_mode": True}, volume),
    ("MaxPool3d", (2,), {"dilation": 2, "stride": 1}, volume),
    ("AvgPool3d", (2,), {"padding": 1, "count_include_pad": False}, volume), ("AvgPool3d", (3,), {"divisor_override": 5}, volume),
    ("AvgPool3d", (2,), {"ceil_mode": True, "stride": 3}, volume),
    ("AdaptiveAvgPool3d", ((3, None, 4),), {}, volume), ("AdaptiveAvgPool3d", (1,), {}, volume),
    ("AdaptiveMaxPool1d", (4,), {}, line), ("AdaptiveMaxPool2d", ((3, None),), {}, picture),
    ("AdaptiveMaxPool3d", ((3, 2, 4),), {}, volume),
    ("LPPool1d", (2, 3), {}, line), ("LPPool2d", (3.0, 2), {"ceil_mode": True}, (numbers(2, 4, 7, 6, low=0.1),)),
    ("LPPool3d", (2, 2), {"stride": 1}, volume), ("LPPool2d", (math.inf, 2), {}, picture),
    *[(f"MaxUnpool{n}d", (2,), {}, unpooled) for n, unpooled in (
        (1, (numbers(2, 3, 4), offsets(2, 3, 4, channel=8))), (2, (numbers(2, 3, 2, 3), offsets(2, 3, 2, 3, channel=24))),
        (3, (numbers(1, 2, 2, 1, 3), offsets(1, 2, 2, 1, 3, channel=48))),
    )],
    ("Upsample", (None, 2), {}, line), ("Upsample", ((5, 9),), {"mode": "bilinear"}, picture),
    ("Upsample", (None, (1.5, 0.7)), {"mode": "bilinear", "align_corners": True}, picture),
    ("Upsample", (None, 1.3), {"mode": "bicubic"}, picture), ("Upsample", (None, 1.6), {"mode": "nearest-exact"}, picture),
    ("Upsample", (7,), {"mode": "linear"}, line), ("Upsample", (None, 2), {"mode": "trilinear"}, volume),
    ("Upsample", ((3, 4, 3),), {"mode": "area"}, volume), ("Upsample", (None, 1.7), {"recompute_scale_factor": True}, picture),
    ("UpsamplingNearest2d", (9,), {}, picture), ("UpsamplingBilinear2d", (None, 2), {}, picture),
    ("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, picture), ("Fold", ((4, 5), (2, 2)), {}, (numbers(2, 8, 12),)),
    ("PixelUnshuffle", (2,), {}, (numbers(2, 3, 4, 6),)), ("ChannelShuffle", (2,), {}, picture),
    ("LocalResponseNorm", (3,), {}, picture), ("LocalResponseNorm", (2, 0.5, 1.5, 2.0), {}, line),
    ("LocalResponseNorm", (5,), {}, volume),
    ("Bilinear", (3, 4, 5), {}, (numbers(2, 6, 3), numbers(2, 6, 4))), ("Bilinear", (3, 4, 5, False), {}, (numbers(6, 3), numbers(6, 4))),
    *[("EmbeddingBag", (10, 4), {"mode": mode}, inputs) for mode in ("sum", "mean", "max") for inputs in (
        (classes(3, 5, count=10),), (classes(7, count=10), torch.tensor([0, 2, 2, 5])),
    )],
    ("EmbeddingBag", (10, 4), {"mode": "sum", "padding_idx": 3}, (classes(3, 5, count=10), None, numbers(3, 5))),
    ("EmbeddingBag", (10, 4), {"include_last_offset": True, "scale_grad_by_freq": True}, (classes(7, count=10), torch.tensor([0, 2, 7]))),
    ("EmbeddingBag", (10, 4), {"max_norm": 1.0, "padding_idx": -1}, (classes(3, 5, count=10),)),
    ("FeatureAlphaDropout", (0.0,), {}, picture),
    *[(f"{name}Pad1d", (2,), {}, line) for name in ("Zero", "Reflection", "Replication", "Circular")],
    *[(f"{name}Pad2d", ((1, 2, 3, 0),), {}, picture) for name in ("Zero", "Reflection", "Replication", "Circular")],
    ("ConstantPad2d", ((1, 2, 0, -1), 3.5), {}, picture), ("ConstantPad1d", (1, 2.0), {}, line),
    *[(name, (0.0,), {}, picture) for name in ("Dropout", "Dropout2d", "AlphaDropout")],
    ("Embedding", (10, 4), {}, (classes(3, 5, count=10),)), ("Embedding", (10, 4, -1), {}, (classes(3, 5, count=10),)),
    ("Embedding", (10, 4), {"max_norm": 1.0}, (classes(3, 5, count=10),)),
    *[(name, (), {"reduction": reduction}, inputs) for reduction in ("mean", "sum", "none") for name, inputs in (
        ("L1Loss", (numbers(4, 5), numbers(4, 5))), ("MSELoss", (numbers(4, 5), numbers(4, 5))),
        ("SmoothL1Loss", (numbers(4, 5), numbers(4, 5))), ("HuberLoss", (numbers(4, 5), numbers(4, 5))),
        ("NLLLoss", (numbers(4, 5), classes(4))), ("CrossEntropyLoss", (numbers(4, 5, 3), classes(4, 3))),
        ("CrossEntropyLoss", (numbers(4, 5), numbers(4, 5, low=0.0))),
        ("BCELoss", (numbers(4, 5, low=0.1, high=0.9), numbers(4, 5, low=0.0, high=1.0))),
        ("BCEWithLogitsLoss", (numbers(4, 5), numbers(4, 5, low=0.0, high=1.0))),
        ("KLDivLoss", (numbers(4, 5), numbers(4, 5, low=0.1))), ("PoissonNLLLoss", (numbers(4, 5), numbers(4, 5, low=0.1))),
        ("GaussianNLLLoss", (numbers(4, 5), numbers(4, 5), numbers(4, 5, low=0.1))),
        ("HingeEmbeddingLoss", (numbers(4, 5), signs(4, 5))), ("SoftMarginLoss", (numbers(4, 5), signs(4, 5))),
        ("CosineEmbeddingLoss", (numbers(4, 5), numbers(4, 5), signs(4))),
        ("MarginRankingLoss", (numbers(4), numbers(4), signs(4))),
        ("MultiLabelSoftMarginLoss", (numbers(4, 5), numbers(4, 5, low=0.0, high=1.0))),
        ("TripletMarginLoss", (numbers(4, 5), numbers(4, 5), numbers(4, 5))),
        ("TripletMarginWithDistanceLoss", (numbers(4, 5), numbers(4, 5), numbers(4, 5))),
        ("MultiMarginLoss", (numbers(4, 5), classes(4))), ("MultiLabelMarginLoss", (numbers(4, 5), labels(4, 5))),
    )],
    ("MultiMarginLoss", (2, 0.5), {}, (numbers(4, 5), classes(4))), ("MultiMarginLoss", (), {}, (numbers(5), classes())),
    ("TripletMarginWithDistanceLoss", (), {"swap": True, "margin": 0.3}, (numbers(4, 5), numbers(4, 5), numbers(4, 5))),
    ("CrossEntropyLoss", (), {"label_smoothing": 0.1, "ignore_index": 2}, (numbers(4, 5), classes(4))),
    ("KLDivLoss", (), {"reduction": "batchmean", "log_target": True}, (numbers(4, 5), numbers(4, 5))),
    ("PoissonNLLLoss", (False, True), {}, (numbers(4, 5, low=0.1), numbers(4, 5, low=0.1, high=9.0))),
    ("TripletMarginLoss", (), {"swap": True}, (numbers(4, 5), numbers(4, 5), numbers(4, 5))),
    ("MultiheadAttention", (8, 2), {}, (numbers(5, 3, 8), numbers(6, 3, 8), numbers(6, 3, 8))),
    ("MultiheadAttention", (8, 2), {"batch_first": True, "kdim": 4, "vdim": 3},
     (numbers(3, 5, 8), numbers(3, 6, 4), numbers(3, 6, 3))),
    ("MultiheadAttention", (8, 4), {"add_bias_kv": True, "add_zero_attn": True}, (numbers(5, 8),) * 3),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0), {"batch_first": True}, (numbers(3, 5, 8),)),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0, "gelu"), {"norm_first": True, "bias": False}, (numbers(3, 5, 8),)),
    ("TransformerDecoderLayer", (8, 2, 16, 0.0), {}, (numbers(3, 5, 8), numbers(4, 5, 8))),
    *[(name, (4, 5), options, (numbers(6, 3, 4),)) for name in ("RNN", "GRU", "LSTM") for options in (
        {}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True},
    )],
    ("RNN", (4, 5), {"nonlinearity": "relu"}, (numbers(6, 4), numbers(1, 5))),
    ("GRU", (4, 5, 2), {}, (numbers(6, 3, 4), numbers(2, 3, 5))),
    ("LSTM", (4, 5), {"proj_size": 3, "num_layers": 2, "bidirectional": True}, (numbers(6, 3, 4),)),
    *[(name, (4, 5), options, (numbers(3, 4),)) for name in ("RNNCell", "GRUCell", "LSTMCell") for options in ({}, {"bias": False})],
    ("RNNCell", (4, 5), {"nonlinearity": "relu"}, (numbers(4), numbers(5))),
    ("Transformer", (8, 2, 2, 2, 16, 0.0), {}, (numbers(3, 5, 8), numbers(4, 5, 8))),
]


def here(tensor, dtype):
    """A tensor of PyTorch's as one of ours."""
    if tensor.is_floating_point():
        return flambeau.tensor(tensor.tolist(), dtype=getattr(flambeau, "float64" if dtype == "double" else "float32"))
    return flambeau.tensor(tensor.tolist())


def tensors(result):
    """The tensors of a result, which may be a tuple of tuples."""
    if isinstance(result, tuple):
        return [tensor for part in result for tensor in tensors(part)]
    return [] if result is None else [result]


def distance(ours, theirs):
    """The largest difference, as a part of the largest number."""
    ours, theirs = torch.tensor(ours.tolist(), dtype=torch.float64), theirs.detach().double()
    if ours.shape != theirs.shape:
        raise AssertionError(f"shape {tuple(ours.shape)} but PyTorch's is {tuple(theirs.shape)}")
    if theirs.numel() == 0:
        return 0.0
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0)).item()


def run(layer, inputs):
    """Outputs, and gradients of inputs and parameters. A layer that writes over its input gets a copy of it."""
    tracked = len(inputs) if type(layer).__name__ not in NO_TARGET_GRADIENT else 1
    floats = lambda x: x is not None and x.is_floating_point()
    leaves = [x.requires_grad_(True) if floats(x) and i < tracked else x for i, x in enumerate(inputs)]
    given = [x * 1 if floats(x) else x for x in leaves]
    outputs = tensors(layer(*given))
    # Weights that differ from element to element, so that no error cancels.
    loss = sum((out * (out * 0.3 + 0.1)).sum() for out in outputs)
    if not loss.requires_grad:
        return outputs
    loss.backward()
    grads = [x.grad for x in [*leaves, *layer.parameters()] if x is not None and x.grad is not None]
    return outputs + grads


def fresh(tensors):
    return [None if x is None else x.detach().clone() for x in tensors]


def check(name, args, kwargs, inputs, dtype):
    theirs = getattr(getattr(torch.nn, name)(*args, **kwargs), dtype)()
    ours = getattr(getattr(flambeau.nn, name)(*args, **kwargs), dtype)()
    if repr(ours) != repr(theirs):
        raise AssertionError(f"repr\n{ours!r}\nbut PyTorch's is\n{theirs!r}")
    state = theirs.state_dict()
    if [*ours.state_dict()] != [*state]:
        raise AssertionError(f"state {[*ours.state_dict()]} but PyTorch's is {[*state]}")
    ours.load_state_dict({key: here(value, dtype) for key, value in state.items()})
    given = [None if x is None else here(x, dtype) for x in inputs]
    copies = [getattr(x.clone(), dtype)() if x is not None and x.is_floating_point() else x for x in inputs]
    worst = 0.0
    for mode in (True, False):
        results = run(ours.train(mode), fresh(given)), run(theirs.train(mode), fresh(copies))
        if len(results[0]) != len(results[1]):
            raise AssertionError(f"{len(results[0])} results but PyTorch has {len(results[1])}")
        worst = max([worst, *(distance(a, b) for a, b in zip(*results))])
        ours.zero_grad()
        theirs.zero_grad()
    worst = max([worst, *(distance(ours.state_dict()[key], value) for key, value in theirs.state_dict().items())])
    if not worst <= LOOSE.get((name, dtype), BOUNDS[dtype]):
        raise AssertionError(f"differs by {worst:.2e}")
    return 0.0 if (name, dtype) in LOOSE else worst


def main():
    import flambeau.nn  # noqa: F401

    torch.manual_seed(0)
    faults, worst = 0, dict.fromkeys(FLOATS, 0.0)
    for case in CASES:
        for dtype in FLOATS:
            try:
                worst[dtype] = max(worst[dtype], check(*case, dtype))
            except Exception as error:
                faults += 1
                print(f"{case[0]}{case[1]} {case[2]} {dtype}: {type(error).__name__}: {error}")
    print(f"{len(CASES)} cases in {len(FLOATS)} dtypes, {faults} differ; largest differences that pass: {worst}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
