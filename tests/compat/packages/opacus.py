"""opacus: gradients of each sample, and their clipping."""

import torch
from opacus.grad_sample import GradSampleModule
from opacus.validators import ModuleValidator

from harness import double, integers, tensor


def sampled(model, x):
    model = GradSampleModule(double(model))
    model(x).square().sum().backward()
    return [parameter.grad_sample for parameter in model.parameters()]


def case_linear():
    return sampled(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)), tensor(3, 4))


def case_convolution():
    return sampled(torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.Conv2d(4, 2, 2)), tensor(3, 2, 6, 6))


def case_embedding():
    return sampled(torch.nn.Sequential(torch.nn.Embedding(7, 4), torch.nn.LayerNorm(4)), integers(3, 5, below=7))


def case_fixed():
    model = ModuleValidator.fix(torch.nn.Sequential(torch.nn.Conv2d(2, 32, 3), torch.nn.BatchNorm2d(32)))
    return [str(type(part).__name__) for part in model]


def case_private():
    from opacus import PrivacyEngine

    model = double(torch.nn.Linear(4, 1))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tensor(8, 4), tensor(8, 1, seed=1)), batch_size=8)
    model, optimizer, data = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=data, noise_multiplier=0.0, max_grad_norm=0.5,
        poisson_sampling=False,
    )
    for x, y in data:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return list(model.parameters())
