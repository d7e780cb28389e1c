"""vector-quantize-pytorch: codebooks that are given, and quantisation without one."""

import vector_quantize_pytorch as vq

from harness import double, tensor

QUICK = ["finite"]


def case_codebook():
    layer = double(vq.VectorQuantize(dim=6, codebook_size=5, decay=0.8, kmeans_init=False, learnable_codebook=False)).eval()
    layer.codebook = tensor(5, 6, seed=3)
    return layer(tensor(2, 4, 6))


def case_finite():
    layer = vq.FSQ([5, 4, 3])
    x = tensor(2, 4, 3).requires_grad_()
    found, indices = layer(x)
    found.square().sum().backward()
    return [found, indices, x.grad]


def case_lookup_free():
    layer = vq.LFQ(codebook_size=8, dim=3).eval()
    return list(layer(tensor(2, 4, 3)))
