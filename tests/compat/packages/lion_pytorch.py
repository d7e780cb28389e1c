"""lion-pytorch: steps of its optimiser."""

import torch
from lion_pytorch import Lion

from harness import double, tensor


def case_steps():
    model = double(torch.nn.Linear(4, 3))
    optimizer = Lion(model.parameters(), lr=1e-2, weight_decay=0.1)
    for step in range(5):
        optimizer.zero_grad()
        model(tensor(2, 4, seed=step)).square().sum().backward()
        optimizer.step()
    return list(model.parameters())
