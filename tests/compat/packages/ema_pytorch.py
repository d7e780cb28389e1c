"""ema-pytorch: averages of a network's weights while it is trained."""

import torch
from ema_pytorch import EMA

from harness import double, tensor


def case_average():
    model = double(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)))
    average = EMA(model, beta=0.9, update_after_step=1, update_every=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(tensor(5, 3)).square().sum().backward()
        optimizer.step()
        average.update()
    return [list(average.ema_model.parameters()), average.eval()(tensor(2, 3)), len(average.state_dict())]
