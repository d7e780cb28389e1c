"""einops: its layers in a network, and its functions."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

from harness import double, tensor, train


def case_layers():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3),
        Reduce("b c (h a) (w b2) -> b c h w", "max", a=2, b2=2),
        torch.nn.ReLU(),
        Rearrange("b c h w -> b (c h w)"),
        torch.nn.Linear(54, 8),
        EinMix("b d -> b e", weight_shape="d e", bias_shape="e", d=8, e=5),
    )
    return train(double(model), tensor(2, 3, 8, 8))


def case_functions():
    x = tensor(2, 3, 4, 5).requires_grad_()
    y = rearrange(x, "b c (h a) w -> b (a c) w h", a=2)
    z = reduce(y, "b c w h -> c h", "mean") + reduce(y, "b c w h -> c h", "prod") + reduce(y, "b c w h -> c h", "min")
    packed, shapes = pack([z, tensor(3, 6, 2, seed=1)], "* c h")
    first, rest = unpack(packed, shapes, "* c h")
    s = einsum(x, repeat(z, "c h -> c h k", k=5), "b c h w, d k w -> b d h w")
    s.square().sum().backward()
    return [y, z, packed, first, rest, s, x.grad]
