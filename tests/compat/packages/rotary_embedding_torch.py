"""rotary-embedding-torch: rotated queries and keys, and axial frequencies."""

from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

from harness import tensor

TOLERANCE = 2e-5


def case_rotated():
    rotary = RotaryEmbedding(dim=8)
    x = tensor(1, 2, 5, 8).requires_grad_()
    found = rotary.rotate_queries_or_keys(x)
    (found * tensor(1, 2, 5, 8, seed=1)).sum().backward()
    return [found, x.grad]


def case_axial():
    rotary = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16)
    return apply_rotary_emb(rotary.get_axial_freqs(4, 4), tensor(1, 4, 4, 16))
