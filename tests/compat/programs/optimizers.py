"""Ten steps of every optimiser, and the rates of every schedule: parameters and rates as JSON."""

import json
import warnings

import torch
from torch import optim
from torch.optim import lr_scheduler, swa_utils

warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)


def start():
    return [torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_(), torch.tensor([0.3, -0.7]).requires_grad_()]


def loss(params):
    matrix, vector = params
    return (matrix @ matrix.t() - torch.eye(2)).square().sum() + (vector - matrix.sum(1)).pow(4).sum()


OPTIMIZERS = {
    "Adadelta": [{}, {"weight_decay": 0.1, "rho": 0.8}],
    "Adafactor": [{}, {"weight_decay": 0.1}],
    "Adamax": [{}, {"weight_decay": 0.1, "maximize": True}],
    "NAdam": [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1}, {"betas": (0.5, 0.6)}],
    "ASGD": [{}, {"t0": 3, "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.1}],
    "LBFGS": [{"lr": 0.1}, {"line_search_fn": "strong_wolfe"}, {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 5}],
}


def steps(name, options):
    params = start()
    optimizer = getattr(optim, name)(params, **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        value = loss(params)
        value.backward()
        return value

    for _ in range(10):
        losses.append(float(optimizer.step(closure)))
    return losses + [x for param in params for x in param.detach().reshape(-1).tolist()]


def rates(make):
    params = start()
    optimizer = optim.SGD(params, lr=0.5, momentum=0.9)
    scheduler = make(optimizer)
    found = []
    for _ in range(12):
        optimizer.step()
        group = optimizer.param_groups[0]
        found += [float(group["lr"]), float(group["momentum"])]
        scheduler.step()
    return found


SCHEDULES = {
    "triangular": lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 3),
    "triangular2": lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 2, 3, mode="triangular2"),
    "exp_range": lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "swa": lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=5),
    "swa_linear": lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=4, anneal_strategy="linear"),
}


def averages():
    found = []
    for options in ({}, {"avg_fn": swa_utils.get_ema_avg_fn(0.9)}, {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.5)}):
        model = torch.nn.Linear(2, 1)
        averaged = swa_utils.AveragedModel(model, **options)
        for step in range(4):
            with torch.no_grad():
                model.weight.fill_(step * step)
            averaged.update_parameters(model)
        found += averaged.module.weight.detach().reshape(-1).tolist()
    return found


answers = {f"{name}{index}": steps(name, o) for name, several in OPTIMIZERS.items() for index, o in enumerate(several)}
answers.update({name: rates(make) for name, make in SCHEDULES.items()})
answers["averages"] = averages()
print(json.dumps(answers))
