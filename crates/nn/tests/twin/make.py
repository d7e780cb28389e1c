"""Writes `outputs.tsv`: what the Python package's modules make of given parameters and inputs, for `twin.rs`.

Each row has a case, the names of its state, the sizes of its outputs, and elements of them at even distances.

Run with the package on the path: `python make.py > outputs.tsv`. Its modules are written apart from Rust's, over the same operators.
"""

from __future__ import annotations

import flambeau as fb
from flambeau import nn

F64 = {"dtype": fb.float64}


def values(count: int, factor: float, phase: float) -> fb.Tensor:
    return fb.sin(fb.arange(count, dtype=fb.float64) * factor + phase)


def made(phase: float, *sizes: int) -> fb.Tensor:
    count = 1
    for size in sizes:
        count *= size
    return values(count, 0.37, phase).reshape(sizes)


def filled(module: nn.Module) -> nn.Module:
    """Every tensor of the state by its rank among the names: sines, and for variances their squares plus 1/2."""
    state = module.state_dict()
    for rank, name in enumerate(sorted(state)):
        tensor = state[name]
        if tensor.is_floating_point():
            new = values(tensor.numel(), 0.7, rank) * 0.5
            new = new * new + 0.5 if name.endswith("running_var") else new
            state[name] = new.reshape(tensor.shape)
    module.load_state_dict(state)
    return module.eval()


def flat(outputs: object) -> list[fb.Tensor]:
    if isinstance(outputs, fb.Tensor):
        return [outputs]
    return [tensor for part in outputs if part is not None for tensor in flat(part)]


def write(case: str, module: nn.Module, *inputs: object, **options: object) -> None:
    outputs = filled(module)(*inputs, **options)
    tensors = flat(outputs)
    numbers = [number for tensor in tensors for number in tensor.reshape(-1).tolist()]
    shown = numbers[:: len(numbers) // 48 + 1]
    shapes = " ".join("x".join(map(str, tensor.shape)) for tensor in tensors)
    print(case, ",".join(sorted(module.state_dict())), shapes, " ".join(f"{n:.14g}" for n in shown), sep="\t")


sequence, memory = made(0, 2, 4, 6), made(1, 2, 3, 6)
hidden = fb.tensor([[False, False, True], [False, True, True]])
for name in ("RNN", "GRU", "LSTM"):
    for layers, both in ((1, False), (2, True)):
        module = getattr(nn, name)(6, 5, layers, batch_first=True, bidirectional=both, **F64)
        write(f"{name}.{layers}.{both}", module, sequence)
    write(f"{name}Cell", getattr(nn, f"{name}Cell")(6, 5, **F64), sequence[0])
write("LSTM.projected", nn.LSTM(6, 5, batch_first=True, proj_size=3, bias=False, **F64), sequence)
write("RNN.relu", nn.RNN(6, 5, nonlinearity="relu", batch_first=True, **F64), sequence)
attention = nn.MultiheadAttention(6, 2, batch_first=True, **F64)
write("attention", attention, sequence, memory, memory, key_padding_mask=hidden)
write("attention.self", attention, sequence, sequence, sequence)
other = nn.MultiheadAttention(6, 2, kdim=4, vdim=3, bias=False, batch_first=True, **F64)
write("attention.widths", other, sequence, made(1, 2, 3, 4), made(2, 2, 3, 3), need_weights=False)
for first in (False, True):
    layer = {"dim_feedforward": 8, "batch_first": True, "norm_first": first, **F64}
    write(f"encoder_layer.{first}", nn.TransformerEncoderLayer(6, 2, activation="gelu", **layer), sequence)
    causal = nn.Transformer.generate_square_subsequent_mask(4, dtype=fb.float64)
    decoder = nn.TransformerDecoderLayer(6, 2, **layer)
    write(f"decoder_layer.{first}", decoder, sequence, memory, tgt_mask=causal, memory_key_padding_mask=hidden)
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, **F64), 2, nn.LayerNorm(6, **F64))
write("encoder", encoder, sequence)
images = {1: made(0, 2, 4, 7), 2: made(0, 2, 4, 7, 5), 3: made(0, 2, 4, 5, 4, 3)}
for dims, image in images.items():
    each = lambda name, *sizes, **more: getattr(nn, f"{name}{dims}d")(*sizes, **more)  # noqa: E731
    write(f"conv.{dims}", each("Conv", 4, 6, 3, stride=2, padding=1, groups=2, **F64), image)
    write(f"conv.same.{dims}", each("Conv", 4, 2, 2, padding="same", padding_mode="circular", bias=False, **F64), image)
    write(f"conv_transpose.{dims}", each("ConvTranspose", 4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, **F64), image)
    write(f"batch_norm.{dims}", each("BatchNorm", 4, **F64), image)
    write(f"instance_norm.{dims}", each("InstanceNorm", 4, affine=True, **F64), image)
    write(f"max_pool.{dims}", each("MaxPool", 3, stride=2, padding=1, ceil_mode=True), image)
    write(f"avg_pool.{dims}", each("AvgPool", 3, stride=2, padding=1, count_include_pad=False), image)
    write(f"adaptive_avg_pool.{dims}", each("AdaptiveAvgPool", 2), image)
    write(f"adaptive_max_pool.{dims}", each("AdaptiveMaxPool", 2), image)
image = images[2]
write("group_norm", nn.GroupNorm(2, 4, **F64), image)
write("local_response", nn.LocalResponseNorm(3), image)
write("layer_norm", nn.LayerNorm([7, 5], bias=False, **F64), image)
write("upsample.bilinear", nn.Upsample(size=(3, 9), mode="bilinear"), image)
write("upsample.nearest", nn.Upsample(scale_factor=2.0), image)
write("upsample.bicubic", nn.Upsample(size=(9, 4), mode="bicubic", align_corners=True), image)
write("upsample.area", nn.Upsample(size=(3, 2), mode="area"), image)
write("pad.reflect", nn.ReflectionPad2d((1, 2, 3, 0)), image)
write("pad.replicate", nn.ReplicationPad2d((1, 2, 3, 0)), image)
write("pad.circular", nn.CircularPad2d((1, 2, 3, 0)), image)
write("embedding", nn.Embedding(7, 3, padding_idx=-2, **F64), fb.tensor([[1, 5, 0], [6, 2, 2]]))
write("bilinear", nn.Bilinear(6, 6, 3, **F64), sequence, made(2, 2, 4, 6))
write("prelu", nn.PReLU(4, **F64), image)
activations = (
    "ReLU6 LogSigmoid Hardsigmoid Hardswish SELU Softsign Tanhshrink CELU ELU Hardshrink Softshrink GLU Hardtanh Softplus Mish"
)
for name in activations.split():
    write(name, getattr(nn, name)(), sequence * 3)
losses = {
    "MSELoss": {}, "L1Loss": {}, "SoftMarginLoss": {}, "SmoothL1Loss": {"beta": 0.5}, "HuberLoss": {"delta": 0.3},
    "PoissonNLLLoss": {"full": True}, "HingeEmbeddingLoss": {}, "KLDivLoss": {"log_target": True, "reduction": "batchmean"},
    "BCEWithLogitsLoss": {"pos_weight": made(3, 6) + 2}, "MultiLabelSoftMarginLoss": {"weight": made(3, 6) + 2},
}  # fmt: skip
first, second = made(0, 4, 6), made(2, 4, 6)
signs = second.sign()
for name, options in losses.items():
    target = signs if name in ("SoftMarginLoss", "HingeEmbeddingLoss") else second * 4 if name == "PoissonNLLLoss" else second
    write(name, getattr(nn, name)(**options), first, target)
write("BCELoss", nn.BCELoss(), first * first, second * second)
classes = fb.tensor([1, 0, 5, 3])
for reduction in ("none", "mean", "sum"):
    loss = nn.CrossEntropyLoss(weight=made(3, 6) + 2, ignore_index=3, label_smoothing=0.2, reduction=reduction)
    write(f"CrossEntropyLoss.{reduction}", loss, first, classes)
write("NLLLoss", nn.NLLLoss(weight=made(3, 6) + 2), first, classes)
write("MultiMarginLoss", nn.MultiMarginLoss(p=2, margin=0.5), first, classes)
write("GaussianNLLLoss", nn.GaussianNLLLoss(full=True), first, second, second * second)
write("MarginRankingLoss", nn.MarginRankingLoss(0.2), first, second, signs)
write("CosineEmbeddingLoss", nn.CosineEmbeddingLoss(0.1), first, second, signs[:, 0])
write("TripletMarginLoss", nn.TripletMarginLoss(swap=True), first, second, made(4, 4, 6))
