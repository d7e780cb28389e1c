"""torchcde: splines through data, and an equation that they control."""

import torch
import torchcde

from harness import double, gradients, tensor


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = double(torch.nn.Linear(3, 6))

    def forward(self, t, z):
        return torch.tanh(self.body(z)).view(*z.shape[:-1], 3, 2)


def case_controlled():
    data = tensor(2, 7, 2)
    found = []
    for coefficients, kind in ((torchcde.hermite_cubic_coefficients_with_backward_differences(data), torchcde.CubicSpline),
                               (torchcde.linear_interpolation_coeffs(data), torchcde.LinearInterpolation)):
        path, field = kind(coefficients), Field()
        z = torchcde.cdeint(X=path, func=field, z0=torch.ones(2, 3), t=path.interval, adjoint=False, method="rk4", options={"step_size": 0.5})
        z.square().sum().backward()
        found += [z, gradients(field)]
    return found
