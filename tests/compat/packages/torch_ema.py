"""torch-ema: averages of parameters."""

import torch
from torch_ema import ExponentialMovingAverage

from harness import double, tensor


def case_average():
    model = double(torch.nn.Linear(3, 2))
    average = ExponentialMovingAverage(model.parameters(), decay=0.9)
    for step in range(4):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * step)
        average.update()
    with average.average_parameters():
        inside = model(tensor(2, 3))
    return [inside, model(tensor(2, 3)), average.state_dict()["shadow_params"]]
