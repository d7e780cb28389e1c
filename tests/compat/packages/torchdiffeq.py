"""torchdiffeq: every solver, the adjoint method, and events."""

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

from harness import double, gradients, tensor


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = double(torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)))

    def forward(self, t, y):
        return self.body(y) * torch.cos(t)


def solved(solve, method, **options):
    field, start = Field(), tensor(3, 2).requires_grad_()
    path = solve(field, start, torch.linspace(0, 1, 5), method=method, **options)
    path.square().sum().backward()
    return [path, start.grad, gradients(field)]


def case_adaptive():
    return {name: solved(odeint, name) for name in ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")}


def case_fixed():
    return {name: solved(odeint, name) for name in ("euler", "midpoint", "heun3", "rk4", "explicit_adams", "implicit_adams")}


def case_adjoint():
    return solved(odeint_adjoint, "dopri5")


def case_events():
    def fall(t, state):
        return state[1], torch.full_like(state[1], -9.8)

    start = (torch.tensor([10.0]), torch.tensor([1.0]))
    return odeint_event(fall, start, torch.tensor(0.0), event_fn=lambda t, state: state[0].sum())
