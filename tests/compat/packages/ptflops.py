"""ptflops: counts of operations by patched functions and by hooks on modules."""

import ptflops
import torch

from harness import double, tensor

REASONS = {"attention": "functions that nn.MultiheadAttention calls inside are not those of nn.functional that the package replaces"}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        x = x + self.attention(x, x, x)[0]
        return x + self.second(torch.nn.functional.gelu(self.first(x))) @ x.new_ones(8, 8)


def counted(model, sizes):
    options = {"as_strings": False, "print_per_layer_stat": False, "verbose": False}
    return list(ptflops.get_model_complexity_info(model, sizes, backend="pytorch", **options))


def case_convolutions():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(216, 4))
    return [counted(double(model), (3, 14, 14)), model(tensor(1, 3, 14, 14))]


def case_attention():
    return counted(double(Block()), (5, 8))
