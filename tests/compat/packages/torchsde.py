"""torchsde: a path of Brownian motion that is given, and a solution along it."""

import torch
import torchsde

from harness import double, gradients, tensor


class Equation(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = double(torch.nn.Linear(2, 2))

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return 0.3 * torch.sigmoid(y)


class Path:
    """Brownian motion whose increments are known: a sum of sines."""

    shape, dtype, device, levy_area_approximation = (3, 2), torch.float64, torch.device("cpu"), "none"

    def __call__(self, ta, tb=None, return_U=False, return_A=False):
        phase = torch.arange(6.0).reshape(3, 2)
        return torch.sin(3 * tb + phase) - torch.sin(3 * ta + phase)


def case_solvers():
    found = {}
    for method in ("euler", "milstein"):
        equation = Equation()
        path = torchsde.sdeint(equation, tensor(3, 2), torch.linspace(0, 1, 4), bm=Path(), method=method, dt=0.1)
        path.square().sum().backward()
        found[method] = [path, gradients(equation)]
    return found
