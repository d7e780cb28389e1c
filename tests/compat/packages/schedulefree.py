"""schedulefree: steps of its optimisers, in training and evaluation mode."""

import schedulefree
import torch

from harness import double, tensor


def steps(kind):
    model = double(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    optimizer = getattr(schedulefree, kind)(model.parameters(), lr=1e-2)
    optimizer.train()
    for _ in range(4):
        optimizer.zero_grad()
        model(tensor(5, 3)).square().sum().backward()
        optimizer.step()
    optimizer.eval()
    return list(model.parameters())


def case_optimizers():
    return {kind: steps(kind) for kind in ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree")}
