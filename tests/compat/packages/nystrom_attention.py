"""nystrom-attention: a transformer whose attention is approximated by landmarks and an iterated pseudo-inverse."""

import torch
from nystrom_attention import Nystromer

from harness import double, tensor, train


def case_transformer():
    return train(double(Nystromer(dim=16, dim_head=8, heads=2, depth=2, num_landmarks=4, pinv_iterations=6)), tensor(2, 19, 16))


def case_masked():
    model = double(Nystromer(dim=16, dim_head=8, heads=2, depth=1, num_landmarks=4, pinv_iterations=6))
    mask = torch.arange(16)[None] < torch.tensor([[16], [11]])
    return train(model, tensor(2, 16, 16), mask=mask)
