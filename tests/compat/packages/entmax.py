"""entmax: sparse alternatives to softmax, with gradients."""

import entmax
import torch

from harness import integers, tensor


def case_functions():
    x = tensor(4, 6).requires_grad_()
    found = [entmax.sparsemax(x, 1), entmax.entmax15(x, 1), entmax.entmax_bisect(x, 1.3), entmax.normmax_bisect(x, 2)]
    (sum((y * y).sum() for y in found) + entmax.entmax15_loss(x, integers(4, below=6)).sum()).backward()
    return [found, x.grad]


def case_learnt():
    alpha = torch.tensor([1.2, 1.5, 1.8, 1.1]).reshape(4, 1).requires_grad_()
    found = entmax.entmax_bisect(tensor(4, 6), alpha)
    (found * tensor(4, 6, seed=1)).sum().backward()
    return [found, alpha.grad]
