"""gpytorch: regression by a Gaussian process: hyperparameters, predictions and variances."""

import gpytorch
import torch

from harness import gradients, uniform

TOLERANCE = 1e-5


class Process(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean, self.kernel = gpytorch.means.ConstantMean(), gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def fitted(kernel):
    x = uniform(20, 1)
    y = torch.sin(6 * x[:, 0])
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood, kernel).double()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    found = gradients(model)
    model.eval(), likelihood.eval()
    with torch.no_grad():
        prediction = likelihood(model(torch.linspace(0, 1, 7)[:, None]))
    return [losses, found, prediction.mean, prediction.variance]


def case_rbf():
    return fitted(gpytorch.kernels.RBFKernel())


def case_matern():
    return fitted(gpytorch.kernels.MaternKernel(2.5))


def case_periodic():
    return fitted(gpytorch.kernels.PeriodicKernel() + gpytorch.kernels.LinearKernel())
