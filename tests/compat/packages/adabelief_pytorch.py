"""adabelief-pytorch: steps of its optimiser with and without rectification."""

import adabelief_pytorch
import torch

from harness import double, tensor


def case_steps():
    found = []
    for options in ({"rectify": True}, {"rectify": False, "weight_decouple": False, "weight_decay": 0.1}, {"amsgrad": True}):
        model = double(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)))
        optimizer = adabelief_pytorch.AdaBelief(model.parameters(), lr=1e-2, eps=1e-12, print_change_log=False, **options)
        for step in range(8):
            optimizer.zero_grad()
            model(tensor(3, 4, seed=step)).square().sum().backward()
            optimizer.step()
        found.append(list(model.parameters()))
    return found
