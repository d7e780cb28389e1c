"""thop: counts of operations and parameters, by hooks on modules."""

import copy

import thop
import torch
import torchvision

from harness import tensor


def case_layers():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(32, 5),
    )
    return thop.profile(model.double(), inputs=(tensor(1, 3, 17, 17),), verbose=False)


def case_network():
    model = torchvision.models.mobilenet_v3_small(num_classes=10).double()
    before = copy.deepcopy(model.state_dict())
    counted = thop.profile(model, inputs=(tensor(1, 3, 64, 64),), verbose=False)
    return [counted, sorted(before) == sorted(model.state_dict()), thop.clever_format(counted, "%.3f")]
