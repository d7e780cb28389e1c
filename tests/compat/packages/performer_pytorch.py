"""performer-pytorch: attention by random features that are given."""

from performer_pytorch import FastAttention, performer_pytorch

from harness import tensor


def case_attention():
    layer = FastAttention(dim_heads=8, nb_features=12)
    layer.projection_matrix.copy_(tensor(12, 8, seed=9))
    parts = [tensor(1, 2, 6, 8, seed=seed).requires_grad_() for seed in range(3)]
    found = layer(*parts)
    found.square().sum().backward()
    return [found, [part.grad for part in parts]]


def case_orthogonal():
    matrix = performer_pytorch.gaussian_orthogonal_random_matrix(6, 6, scaling=1)
    return (matrix @ matrix.t())
