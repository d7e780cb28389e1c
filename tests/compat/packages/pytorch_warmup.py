"""pytorch-warmup: schedules that dampen the rates of another schedule."""

import pytorch_warmup
import torch

from harness import double, tensor


def case_schedules():
    found = {}
    for name in ("LinearWarmup", "ExponentialWarmup", "UntunedLinearWarmup", "UntunedExponentialWarmup", "RAdamWarmup"):
        model = double(torch.nn.Linear(4, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        options = {"warmup_period": 5} if name in ("LinearWarmup", "ExponentialWarmup") else {}
        warmup = getattr(pytorch_warmup, name)(optimizer, **options)
        rates = []
        for _ in range(8):
            optimizer.zero_grad()
            model(tensor(5, 4)).square().sum().backward()
            optimizer.step()
            with warmup.dampening():
                schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
        found[name] = [rates, list(model.parameters())]
    return found
