"""torch-optimizer: steps of its optimisers."""

import torch
import torch_optimizer

from harness import double, tensor

NAMES = "A2GradExp A2GradInc A2GradUni AccSGD AdaBelief AdaBound AdaMod Adafactor AdamP AggMo Apollo DiffGrad LARS Lamb Lion MADGRAD NovoGrad PID QHAdam QHM RAdam Ranger RangerQH RangerVA SGDP SGDW SWATS Yogi"


def steps(name):
    model = double(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    optimizer = getattr(torch_optimizer, name)(model.parameters(), **({"lr": 1e-2} if name not in ("A2GradExp", "A2GradInc", "A2GradUni") else {}))
    for _ in range(4):
        optimizer.zero_grad()
        model(tensor(5, 3)).square().sum().backward()
        optimizer.step()
    return list(model.parameters())


def case_first():
    return {name: steps(name) for name in NAMES.split()[:14] if hasattr(torch_optimizer, name)}


def case_second():
    return {name: steps(name) for name in NAMES.split()[14:] if hasattr(torch_optimizer, name)}
