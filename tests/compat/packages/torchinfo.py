"""torchinfo: the table of a network's layers."""

import torch
import torchinfo

DOUBLE = False


def case_summary():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
    found = torchinfo.summary(model, (2, 3, 8, 8), verbose=0, col_names=("input_size", "output_size", "num_params", "mult_adds"))
    return [str(found), found.total_params, found.total_mult_adds]


def case_recurrent():
    found = torchinfo.summary(torch.nn.LSTM(4, 5, num_layers=2), (3, 2, 4), verbose=0)
    return [found.total_params, found.trainable_params]
